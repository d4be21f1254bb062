"""Experiment 3: maximum and sum in one kernel, where that stops paying, and its repairs."""

from __future__ import annotations

from softbench.analysis.document import Part, Table
from softbench.analysis.experiments.evidence import (
    Evidence,
    Finding,
    factor,
    finding,
    is_faster,
    latency_ms,
    listed,
    spread,
)
from softbench.records.published import PublishedTable

MULTI_PASS_STREAMS, TWO_READ_STREAMS = 4, 3
"""How often the row is moved: three reads and a write, two reads and a write."""
LARGE, HUGE = "10000000", "100000000"


def section(evidence: Evidence, published: PublishedTable) -> list[Part]:
    """One row of 100K to 100M elements: many passes, three kernels, the repairs, and torch eager."""
    sizes = list(dict.fromkeys(row["elements"] for row in published.rows))
    passes, fused, repaired = evidence.player("passes"), evidence.player("fused"), evidence.playing("repaired")
    names = (passes, fused, *repaired, *evidence.playing("context"))
    rows = []
    for elements in sizes:
        cells = {name: evidence.cell(_id(elements), name) for name in names}
        was = [published.number("latency_ms", elements=elements, implementation=n) for n in (passes, fused)]
        gains = [factor(cells[passes], cells[name]) for name in (fused, *repaired)]
        figures = (f"{was[0]:.3f}", f"{was[1]:.3f}", f"{was[0] / was[1]:.2f}x", *map(latency_ms, cells.values()))
        rows.append((f"{int(elements):,}", *figures, ", ".join("-" if g is None else f"{g:.2f}x" for g in gains)))
    over = f"over {passes}: {', '.join((fused, *repaired))}"
    header = ("elements", "published multi-pass ms", "fused ms", "speed-up", *names, over)
    return [Table(header, tuple(rows)), listed([*_claims(evidence, sizes), *_limits(evidence)])]


def _id(elements: str) -> str:
    return f"softmax-float32-1x{elements}"


def _claims(evidence: Evidence, sizes: list[str]) -> list[Finding]:
    small = [size for size in sizes if size != HUGE]
    names = (evidence.player("fused"), evidence.player("passes"))
    pairs = {size: [evidence.cell(_id(size), name) for name in names] for size in (*sizes, HUGE)}
    gains = [factor(passes, fused) for fused, passes in (pairs[size] for size in small)]
    fused, passes = pairs[HUGE]
    loss = factor(passes, fused)
    repaired = [
        [is_faster(evidence.cell(_id(size), name), pairs[size][1]) for name in evidence.playing("repaired")]
        for size in sizes
    ]
    best = [None if all(part is None for part in parts) else any(parts) for parts in repaired]
    faster, slower = [is_faster(*pairs[size]) for size in small], is_faster(passes, fused)
    lost = "nothing was measured" if loss is None else f"{loss:.2f}x"
    return [
        finding("Fused beats multi-pass up to 10M elements.", faster, spread(gains, "{:.2f}x")),
        finding("At 100M one block that merges all others makes it lose.", [slower], lost),
        finding("A repaired form beats multi-pass at every size.", best),
    ]


def _limits(evidence: Evidence) -> list[Finding]:
    """What the kernels are held to here: their own traffic at the rate of the roof."""
    findings = []
    for size, streams, limit, part, text in (
        (LARGE, MULTI_PASS_STREAMS, 1.3, "passes", "Multi-pass is no straw man: 10M within 1.3 times its own traffic"),
        (HUGE, MULTI_PASS_STREAMS, 1.3, "passes", "Nor there: 100M within 1.3 times its own traffic"),
        (HUGE, TWO_READ_STREAMS, 1.15, "repaired", "100M within 1.15 times two reads and a write"),
        (LARGE, 2, 1.35, "repaired", "10M within 1.35 times a copy"),
    ):
        floor = evidence.floor_ns(_id(size), streams)
        cells = {name: evidence.cell(_id(size), name) for name in evidence.playing(part)}
        times = {name: cell.latency_ns for name, cell in cells.items() if cell and cell.latency_ns and not cell.is_open}
        if floor is None or not times:
            findings.append(Finding(f"{text}.", None))
            continue
        name = min(times, key=times.__getitem__)
        findings.append(Finding(f"{text}.", times[name] <= limit * floor, f"{times[name] / floor:.2f} ({name})"))
    return findings
