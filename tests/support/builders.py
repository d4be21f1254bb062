"""Synthetic runs."""

import random
from dataclasses import replace

import pytest

from softbench.analysis import leaderboard
from softbench.model import DTYPE_BYTES, Case, Passport, Record, Run, Samples, Status, Variant
from softbench.records import store

LAUNCHES = 20
GPU = {"name": "NVIDIA H200", "sms": 132, "l2_bytes": 62_914_560, "peak_gb_s": 4814.0, "driver": "580.1"}


def passport(clock="graph", **changes):
    fields = {
        "run_id": "r1",
        "started": "2026-01-02T03:04:05Z",
        "profiles": ("full",),
        "ranking_clock": clock,
        "seed": 1,
        "command": "pytest",
        "device": GPU if clock == "graph" else {"name": "a CPU"},
        "packages": {"torch": "2.11.0"},
        "commit": "0123abc",
    }
    return Passport(**{**fields, **changes})


def softmax_case(rows=4096, columns=1024, dtype="float16", **changes):
    return Case(**{"operator": "softmax", "shape": (rows, columns), "dtype": dtype, "out_dtype": dtype, **changes})


CASE, OTHER = softmax_case(4096, 1024), softmax_case(4096, 2048)


def variant(name, family="triton", operator="softmax", **changes):
    return Variant(name, operator, family, **{"path": f"impls/{family}/{name}.py", "source_hash": "0" * 8, **changes})


def samples(ns, clock="graph", heat=0, placements=8, spread=1e-4):
    """About `ns` per launch; placements differ by `spread`. Each time and heat has new ones."""
    draw = random.Random(f"{ns} {heat} {clock}")
    rounds = [[round(ns * LAUNCHES * (1 + draw.gauss(0, spread))) for _ in range(3)] for _ in range(placements)]
    return Samples(clock, LAUNCHES, tuple(map(tuple, rounds)), "cold", heat)


def timed(case, name, ns, role="entrant", **changes):
    """Heat, placements, spread and clock go to the samples, the rest to the record."""
    keys = ("heat", "placements", "spread", "clock")
    taken = samples(ns, **{key: changes.pop(key) for key in keys if key in changes})
    moved = 2 * case.elements * DTYPE_BYTES[case.dtype]
    record = {"variant": variant(name), "samples": (taken,), "ideal_bytes": moved, "role": role}
    return Record(case=case, status=Status.PASSED, **{**record, **changes})


def times(case, how=None, /, **ns):
    """Passes by the names of their entrants; how: what all of them are made with."""
    return [timed(case, name, value, **(how or {})) for name, value in ns.items()]


def roof_of(case, ns, **changes):
    return timed(case, "copy", ns, "roof", **changes)


def two_clocks(case, name, ns, other_ns, clock="call", **more):
    """By the clock that ranks, and by another one, whose samples take the rest."""
    record = timed(case, name, ns)
    return replace(record, samples=(*record.samples, samples(other_ns, clock, **more)))


def ended(case, name, status=Status.UNSUPPORTED, reason="no", **changes):
    fields = {"variant": variant(name), "reproduce": f"pytest -k {case.id}", **changes}
    return Record(case=case, status=status, reason=reason, **fields)


def overflowed():
    """A cell that a published claim is about."""
    case = softmax_case(1, 1000, "float32", timed=False, distribution="uniform_0_10")
    return ended(case, "cuda_naive", Status.INCORRECT, "nan")


def run(records, clock="graph", **changes):
    return Run(passport(clock, **changes), tuple(records))


def board(records, clock="graph", **changes):
    return leaderboard.build(run(records, clock, **changes))


def standing(board, name):
    return next(row for row in board.ranking if row.implementation == name)


def stored(folder, *runs):
    for one in runs:
        writer = store.Writer.create(folder, one.passport)
        writer.append(one.records)
    return writer.path


def written(folder, *records, **changes):
    return stored(folder, run(records, **changes))


def refused(words):
    return pytest.raises(store.StoreError, match=words)
