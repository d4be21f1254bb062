"""Kernels of impls/cute that split rows over CTAs, on a CPU: all CTAs at once, thread by thread (`support.emulated_threads`)."""

import contextlib
import itertools
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from support import emulated_threads as emulated
from support.emulated_memory import DTYPES, TIMEOUT_S, Layout, Pointer, Tensor
from support.emulated_threads import here


class Launch(emulated.Cluster):
    """CTAs of several crews; the rank of a CTA is its number."""

    def __init__(self, config):
        super().__init__(config.ctas * config.crews, config.cta_threads, 0, 1, True)
        self.crew = config.ctas
        self.grid, self.named, self.start = config.grid, {}, threading.Barrier(self.ctas * self.threads, timeout=TIMEOUT_S)

    def place(self, rank):
        return rank % self.grid[0], rank // self.grid[0], 0

    def peer(self, rank):
        return here.rank // self.crew * self.crew + rank

    def aborted(self):
        return [*super().aborted(), *self.named.values(), self.start]


class Part(emulated.Cluster):
    """One of the clusters of a row."""

    def __init__(self, config, row, part, errors):
        super().__init__(config.cluster, config.threads, row, 1, True)
        self.part, self.errors = part, errors

    def place(self, rank):
        return self.cta, self.part * self.ctas + rank, 0


def barrier(barrier_id, number_of_threads):
    cluster = here.cluster
    with cluster.lock:
        key = here.rank, barrier_id
        named = cluster.named.setdefault(key, threading.Barrier(number_of_threads, timeout=TIMEOUT_S))
    assert named.parties == number_of_threads
    named.wait()


def load(place, dtype, **_):
    assert not here.cluster.errors
    time.sleep(0)
    return dtype(place.memory[place.at(0)])


def store(place, value, **_):
    place.memory[place.at(0)] = value


def count_on(place):
    with here.cluster.lock:
        count = load(place, int)
        store(place, count + 1)
    return count


def put(place, tag, pair):
    for i, value in enumerate(pair):
        store(place + i, tag << 32 | int(np.float32(value).view(np.uint32)))


@contextlib.contextmanager
def family():
    """As that of emulated_threads, with what split rows have of the hardware."""
    with emulated.family() as modules:
        vars(sys.modules["cutlass.cute"].arch).update(barrier=barrier, load=load, store=store)
        pairs, modules("htile.claims").count_on = modules("htile.pairs"), count_on
        pairs.put, pairs.peek = put, lambda place: tuple(load(place + i, DTYPES["int64"]) for i in range(2))
        pairs.number = lambda word: np.uint32(word & 0xFFFFFFFF).view(np.float32)
        yield modules


def workspace(config):
    return Tensor(Pointer([0] * config.workspace_words, 0, DTYPES["int64"]), Layout(config.workspace_words))


def launch(kernel, config, *arguments):
    """Crews begin together."""
    grid = Launch(config)
    grid.run(lambda: (grid.start.wait(), kernel(*arguments)))


def launch_parts(kernel, config, *arguments):
    """All clusters of all rows at once."""
    rows, errors = arguments[0].shape[0], []
    clusters = [Part(config, *who, errors) for who in itertools.product(range(rows), range(config.parts))]
    with ThreadPoolExecutor(len(clusters)) as pool:
        list(pool.map(lambda cluster: cluster.run(lambda: kernel(*arguments)), clusters))
