"""Experiment 3: maximum and sum in one kernel, where that stops paying, and its repairs."""

from __future__ import annotations

from softbench.analysis.experiments.evidence import (
    Evidence,
    Finding,
    factor,
    finding,
    is_faster,
    latency_ms,
    spread,
    table,
)
from softbench.records.published import PublishedTable

PASSES, FUSED, TORCH = "cuda_multi_pass", "cuda_fused", "torch_eager"
REPAIRED = ("cuda_fused_wide", "cuda_fused_two", "cuda_cooperative", "cuda_on_chip")
MULTI_PASS_STREAMS, TWO_READ_STREAMS = 4, 3
"""How often the row is moved: three reads and a write, two reads and a write."""
LARGE, HUGE = "10000000", "100000000"


def section(evidence: Evidence, published: PublishedTable) -> str:
    """One row of 100K to 100M elements: many passes, three kernels, the repairs, and torch eager."""
    sizes = list(dict.fromkeys(row["elements"] for row in published.rows))
    names = (PASSES, FUSED, *REPAIRED, TORCH)
    rows = []
    for elements in sizes:
        cells = {name: evidence.cell(_id(elements), name) for name in names}
        was = [published.number("latency_ms", elements=elements, implementation=n) for n in (PASSES, FUSED)]
        gains = [factor(cells[PASSES], cells[name]) for name in (FUSED, *REPAIRED)]
        said = [
            f"{was[0]:.3f}",
            f"{was[1]:.3f}",
            f"{was[0] / was[1]:.2f}x",
            *(latency_ms(cells[name]) for name in names),
        ]
        rows.append([f"{int(elements):,}", *said, ", ".join("-" if g is None else f"{g:.2f}x" for g in gains)])
    header = ["elements", "published multi-pass ms", "fused ms", "speed-up", *names]
    header.append(f"over {PASSES}: {', '.join((FUSED, *REPAIRED))}")
    findings = [*_claims(evidence, sizes), *_bars(evidence)]
    return "\n\n".join([table(header, rows), "\n".join(map(str, findings))])


def _id(elements: str) -> str:
    return f"softmax-float32-1x{elements}"


def _claims(evidence: Evidence, sizes: list[str]) -> list[Finding]:
    small = [size for size in sizes if size != HUGE]
    pairs = {size: (evidence.cell(_id(size), FUSED), evidence.cell(_id(size), PASSES)) for size in (*sizes, HUGE)}
    gains = [factor(passes, fused) for fused, passes in (pairs[size] for size in small)]
    fused, passes = pairs[HUGE]
    loss = factor(passes, fused)
    repaired = [[is_faster(evidence.cell(_id(size), name), pairs[size][1]) for name in REPAIRED] for size in sizes]
    best = [None if all(part is None for part in parts) else any(parts) for parts in repaired]
    return [
        finding(
            "Fused beats multi-pass up to 10M elements.",
            [is_faster(*pairs[s]) for s in small],
            spread(gains, "{:.2f}x"),
        ),
        finding(
            "At 100M one block that merges all others makes it lose.",
            [is_faster(passes, fused)],
            "nothing was measured" if loss is None else f"{loss:.2f}x",
        ),
        finding("A repaired form beats multi-pass at every size.", best),
    ]


def _bars(evidence: Evidence) -> list[Finding]:
    """What the kernels are held to here: their own traffic at the rate of the roof."""
    found = []
    for size, streams, limit, names, text in (
        (LARGE, MULTI_PASS_STREAMS, 1.3, (PASSES,), "Multi-pass is no straw man: 10M within 1.3 times its own traffic"),
        (HUGE, MULTI_PASS_STREAMS, 1.3, (PASSES,), "Nor there: 100M within 1.3 times its own traffic"),
        (HUGE, TWO_READ_STREAMS, 1.15, REPAIRED, "100M within 1.15 times two reads and a write"),
        (LARGE, 2, 1.35, REPAIRED, "10M within 1.35 times a copy"),
    ):
        floor = evidence.floor_ns(_id(size), streams)
        cells = {name: evidence.cell(_id(size), name) for name in names}
        times = {
            name: cell.latency_ns for name, cell in cells.items() if cell is not None and cell.latency_ns is not None
        }
        if floor is None or not times:
            found.append(Finding(f"{text}.", None))
            continue
        name = min(times, key=times.__getitem__)
        found.append(Finding(f"{text}.", times[name] <= limit * floor, f"{times[name] / floor:.2f} ({name})"))
    return found
