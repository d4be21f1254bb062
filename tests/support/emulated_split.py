"""Kernels of impls/cute that split rows over CTAs, on a CPU: all CTAs at once, thread by thread (`support.emulated_threads`)."""

import contextlib
import sys
import threading
import time

import numpy as np

from support import emulated_threads as emulated
from support.emulated_memory import DTYPES, TIMEOUT_S, Layout, Pointer, Tensor
from support.emulated_threads import here


class Launch(emulated.Cluster):
    """CTAs of several crews; the rank of a CTA is its number."""

    def __init__(self, config):
        super().__init__(config.ctas * config.crews, config.cta_threads, 0, 1, True)
        self.named, self.start = {}, threading.Barrier(self.ctas * self.threads, timeout=TIMEOUT_S)

    def place(self, rank):
        return rank, 0, 0

    def aborted(self):
        return [*super().aborted(), *self.named.values(), self.start]


def barrier(barrier_id, number_of_threads):
    cluster = here.cluster
    with cluster.lock:
        key = here.rank, barrier_id
        named = cluster.named.setdefault(key, threading.Barrier(number_of_threads, timeout=TIMEOUT_S))
    assert named.parties == number_of_threads
    named.wait()


def load(place, dtype, **_):
    time.sleep(0)
    return dtype(place.memory[place.at(0)])


def store(place, value, **_):
    place.memory[place.at(0)] = value


def send(context, place, tag, pair):
    if context.thread % emulated.WARP == 0:
        for i, value in enumerate(pair):
            store(place + i, tag << 32 | int(np.float32(value).view(np.uint32)))


@contextlib.contextmanager
def family():
    """As that of emulated_threads, with what split rows have of the hardware."""
    with emulated.family() as modules:
        vars(sys.modules["cutlass.cute"].arch).update(barrier=barrier, load=load, store=store)
        split = modules("htile.split")
        split.send, split.peek = send, lambda place: tuple(load(place + i, DTYPES["int64"]) for i in range(2))
        split.number = lambda word: np.uint32(word & 0xFFFFFFFF).view(np.float32)
        yield modules


def workspace(config):
    return Tensor(Pointer([0] * config.workspace_words, 0, DTYPES["int64"]), Layout(config.workspace_words))


def launch(kernel, config, *arguments):
    """Crews begin together."""
    grid = Launch(config)
    grid.run(lambda: (grid.start.wait(), kernel(*arguments)))
