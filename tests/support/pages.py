"""Runs for the tests of the page."""

import functools
import itertools
import random
from dataclasses import replace

from softbench.model import Accuracy, KernelResources, Record, Samples, Status, Telemetry, Traffic
from softbench.records.claims import ClaimFile
from softbench.render import report
from support import builders as make
from support import outline
from support.builders import DTYPE_BYTES, ended, roof_of, softmax_case, timed, times

CASE, WIDE = softmax_case(32768, 1024), softmax_case(4096, 131072)
LADDER = ("first", "second", "third")
SHAPES = [(32768, 1024), (16384, 2048), (8192, 4096), (4096, 65536), (1024, 65536), (16, 131072), (1, 131072)]
EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)>"
HOSTILE = (
    EVIL,
    "n" * 300,
    "\u202eשלום-مرحبا",
    "\x1b[31mred\x1b[0m\x9b2J\x07",
    "__proto__",
    "constructor",
    "<b>bold</b> %{x} $\\int$ &amp; \"quoted\" 'single'",
)


@functools.cache
def everything():
    """Two operators, three dtypes, all regimes, hard cases, a ladder, every clock, counters, telemetry, every status."""
    records = []
    for operator, dtypes in (("softmax", ("float16", "float32")), ("rmsnorm", ("bfloat16",))):
        for dtype in dtypes:
            for number, (rows, columns) in enumerate(SHAPES):
                case = softmax_case(rows, columns, dtype, operator=operator)
                records += _contest(case, number)
        records += _hard(softmax_case(37, 1000, dtypes[0], operator=operator, timed=False, distribution="all_inf"))
        records += _hard(softmax_case(37, 1000, dtypes[0], operator=operator, timed=False), wrong=False)
    sources = dict.fromkeys((*LADDER, "other", "flawed", "absent"), "0" * 8)
    return make.run(records, sources=sources, packages={"torch": "2.11.0", "triton": "3.6.0"})


@functools.cache
def written():
    return report.render(everything())


@functools.cache
def read():
    return outline.outline(written())


def shown(run, **arguments):
    return outline.outline(report.render(run, **arguments))


def stored(folder):
    run = everything()
    make.stored(folder / "reports", run)
    return run


def published_beside():
    """Figures of an H800 for two shapes of `everything`."""
    figures = {
        "softmax-float16-32768x1024": {"theirs": "0.0485 ms", "other": "0.0588 ms"},
        "softmax-float16-16384x2048": {"theirs": "0.0490 ms", "other": "unsupported"},
    }
    return [ClaimFile("a.yaml", "title", "a paper", "NVIDIA H800", "ms", (), figures)]


def _contest(case, number):
    base = 2.0 * case.elements * 2 / 4000 + 1500
    found = [_timed(case, name, base * (1.6 - 0.25 * rung)) for rung, name in enumerate(LADDER)]
    found.append(_timed(case, "other", base * (1.1 if number % 2 else 1.1005)))
    found.append(_timed(case, "flawed", base * 1.3))
    found.append(_timed(case, "torch_eager", base * 2.5, "reference"))
    found.append(_timed(case, "copy", base, "roof"))
    if number == 1:
        first, *others = found[3].samples
        aside, again = replace(first, clock="unsteady", ns=first.ns[:1]), replace(first, ns=((), *first.ns[1:]))
        found[3] = replace(found[3], samples=(again, aside, *others))
    if number == 3:
        found[0] = ended(case, "first", Status.OUT_OF_MEMORY, "wants 80 GB", variant=found[0].variant)
    if number == 4:
        found[1] = ended(case, "second", Status.UNSUPPORTED, "rows are few", variant=found[1].variant)
    if number == 5:
        found[3] = ended(case, "other", Status.INCORRECT, "row 0", variant=found[3].variant, known_failure="seen")
    return found


def _variant(case, name):
    if name not in LADDER:
        return make.variant(name, "library", case.operator)
    params = (("width", 8),) if name == "third" and case.timed else ()
    return make.variant(name, "ladder", case.operator, params=params, path="ladder/rungs.py")


def _timed(case, name, ns, role="entrant"):
    """All clocks, with heats of their own; the tallest cases were warm."""
    cache = "warm" if case.elements < 2**22 else "cold"
    taken = replace(make.samples(ns, heat=0), cache=cache)
    call = make.samples(9e3 if name == "third" else 5e3, "call", spread=0.05, placements=5)
    more = [make.samples(ns * 1.02, "device"), *([make.samples(ns * 1.3, "cold")] if cache == "warm" else [])]
    states = tuple(Telemetry(1980 - p, 3201, 500 + p, 40 + p, "power_cap" if p == 7 else "") for p in range(8))
    moved = round(1.04 * case.elements * 2)
    return Record(
        case=case,
        variant=replace(_variant(case, name), summary=f"{name}: one idea more"),
        status=Status.PASSED,
        samples=(taken, call, *more) if role != "roof" else (taken,),
        kernels=(KernelResources("kernel", 40, 16 if name == "first" else 0, 1024),) if role == "entrant" else (),
        telemetry=states,
        traffic=Traffic(moved, moved, round(ns), 1.5, 40.0) if role == "entrant" else None,
        accuracy=Accuracy(0.5, 0.375, -0.0012, case.elements) if role == "entrant" and name != "second" else None,
        notes=("built and checked in 1.0 s", "heat 0: decided after 8 placements"),
        ideal_bytes=2 * case.elements * DTYPE_BYTES[case.dtype],
        role=role,
        best_of=2 if name == "third" else 1,
    )


def _hard(case, wrong=True):
    found = [timed(case, name, 1, samples=(), variant=_variant(case, name)) for name in LADDER]
    flawed = _variant(case, "flawed")
    if wrong:
        return [*found, ended(case, "flawed", Status.INCORRECT, "NaN where 0 is expected: row 3", variant=flawed)]
    return [*found, ended(case, "flawed", Status.TIMEOUT, "no answer in 60 s", variant=flawed, known_failure="slow")]


def large(cells, placements=8):
    """Raw samples as a GPU gives them, in steps of 32 ns."""
    draw = random.Random(1)
    records = []
    names = [*(f"implementation_{n}" for n in range(8)), "torch_eager", "copy"]
    dtypes = ("float16", "bfloat16", "float32")
    for odd, power, rows, dtype in itertools.product((0, 1, 3, 5), range(5, 20), (64, 512, 4096, 32768), dtypes):
        if len(records) >= cells:
            return make.run(records[:cells])
        case = softmax_case(rows, 2**power + odd, dtype)
        for index, name in enumerate(names):
            records.append(_measured(draw, case, name, case.elements / 1000 * (1 + 0.1 * index) + 3000, placements))
    raise ValueError(f"too few shapes for {cells} cells")


def _measured(draw, case, name, ns, placements):
    launches = max(2, min(500, round(1e6 / ns)))
    graph = [[32 * round(ns * launches * draw.gauss(1, 0.002) / 32) for _ in range(8)] for _ in range(placements)]
    call = [[round(draw.gauss(6000, 500)) for _ in range(20)] for _ in range(5)]
    samples = (Samples("graph", launches, tuple(map(tuple, graph)), "cold"), Samples("call", 1, tuple(map(tuple, call))))
    states = tuple(Telemetry(1980, 3201, draw.randint(480, 600), draw.randint(38, 45)) for _ in range(placements))
    notes = ("built and checked in 1.9 s", f"heat 0: decided after {placements} placements")
    role = {"copy": "roof", "torch_eager": "reference"}.get(name, "entrant")
    return timed(case, name, ns, role, samples=samples, telemetry=states, notes=notes)


def hostile():
    """Whatever can be named is named badly."""
    records = []
    for number, name in enumerate(HOSTILE):
        variant = make.variant(name, family=name, summary=name, params=(("p", name),))
        for case in (softmax_case(4096, 1024, layout=name), softmax_case(8192, 2048)):
            records.append(timed(case, name, 5e4 + 1e3 * number, variant=variant, notes=(name,)))
        hard = softmax_case(37, 100 + number, timed=False, distribution=name)
        records.append(ended(hard, name, Status.CRASHED, f"{name}\0\ud800\n{name}", variant=variant, reproduce=name))
    records.append(roof_of(softmax_case(8192, 2048), 4e4))
    device = {"name": HOSTILE[0] + HOSTILE[2], HOSTILE[1]: HOSTILE[3]}
    return make.run(records, commit=EVIL, device=device, settings={"x": [*HOSTILE]}, profiles=HOSTILE[:3], command=EVIL)


def failures():
    hard = softmax_case(timed=False, distribution="all_inf")
    return make.run(
        [
            ended(make.CASE, "a", Status.CRASHED, "signal 11"),
            ended(make.CASE, "b", Status.COMPILE_ERROR, "no such instruction"),
            ended(hard, "a", Status.TIMEOUT, "60 s"),
        ]
    )


def told_in_flops():
    """Cases of an operator that arithmetic may bind, from 64 flops per byte to 256."""
    records = []
    for heads, keys, ns in ((64, 128, 1e3), (16, 512, 4e3), (2, 512, 8e2)):
        case = softmax_case(shape=(1, heads, keys, 64))
        moved = 4 * 2 * case.elements
        flops = {"ideal_bytes": moved, "ideal_flops": moved * keys // 2}
        records += times(case, flops, a=ns, b=ns * 1.2, c=ns * 3)
        records.append(timed(case, "roofline", ns / 2, role="roof", **flops))
    return make.run(records)
