"""Experiment 2: what subtracting the maximum costs."""

from __future__ import annotations

from softbench.analysis.document import Part, Table
from softbench.analysis.experiments.evidence import Evidence, factor, finding, is_faster, latency_ms, listed, spread
from softbench.records.published import PublishedTable


def section(evidence: Evidence, published: PublishedTable) -> list[Part]:
    """One row of 1K to 10M elements: two kernels without the maximum against passes for maximum, sum and output."""
    players = [evidence.player(part) for part in ("unsafe", "safe")]
    rows, here, there, slower = [], [], [], []
    for elements in dict.fromkeys(row["elements"] for row in published.rows):
        unsafe, safe = (evidence.cell(f"softmax-float32-1x{elements}", name) for name in players)
        was = [published.number("latency_ms", elements=elements, implementation=name) for name in players]
        ratio = factor(safe, unsafe)
        here.append(None if ratio is None else 100 * (ratio - 1))
        there.append(100 * (was[1] / was[0] - 1))
        slower.append(is_faster(unsafe, safe))
        figures = (f"{was[0]:.3f}", f"{was[1]:.3f}", f"{there[-1]:+.0f} %", latency_ms(unsafe), latency_ms(safe))
        rows.append((f"{int(elements):,}", *figures, "" if ratio is None else f"{here[-1]:+.0f} %"))
    inside = [None if value is None else min(there) <= value <= max(there) for value in here]
    measured = spread(here, "{:+.0f} %")
    findings = (
        finding("The stable form is slower at every size.", slower, measured),
        finding(f"It costs {spread(there, '{:.0f}')} % more, whatever the size.", inside, measured),
    )
    heads = ("naive ms", "multi-pass ms", "overhead")
    header = ("elements", *(f"{head}, {place}" for place in ("published", "here") for head in heads))
    return [Table(header, tuple(rows)), listed(findings)]
