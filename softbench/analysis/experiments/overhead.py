"""Experiment 2: what subtracting the maximum costs."""

from __future__ import annotations

from softbench.analysis.experiments.evidence import Evidence, factor, finding, is_faster, latency_ms, spread, table
from softbench.records.published import PublishedTable

NAIVE, STABLE = "cuda_naive", "cuda_multi_pass"


def section(evidence: Evidence, published: PublishedTable) -> str:
    """One row of 1K to 10M elements: two kernels without the maximum against passes for maximum, sum and output."""
    rows, here, there, slower = [], [], [], []
    for elements in dict.fromkeys(row["elements"] for row in published.rows):
        naive, stable = (evidence.cell(f"softmax-float32-1x{elements}", name) for name in (NAIVE, STABLE))
        was = [published.number("latency_ms", elements=elements, implementation=n) for n in (NAIVE, STABLE)]
        ratio = factor(stable, naive)
        here.append(None if ratio is None else 100 * (ratio - 1))
        there.append(100 * (was[1] / was[0] - 1))
        slower.append(is_faster(naive, stable))
        cells = [f"{was[0]:.3f}", f"{was[1]:.3f}", f"{there[-1]:+.0f} %", latency_ms(naive), latency_ms(stable)]
        rows.append([f"{int(elements):,}", *cells, "" if ratio is None else f"{here[-1]:+.0f} %"])
    inside = [None if value is None else min(there) <= value <= max(there) for value in here]
    measured = spread(here, "{:+.0f} %")
    findings = [
        finding("The stable form is slower at every size.", slower, measured),
        finding(f"It costs {spread(there, '{:.0f}')} % more, whatever the size.", inside, measured),
    ]
    header = [
        "elements",
        *(f"{w}, {p}" for p in ("published", "here") for w in ("naive ms", "multi-pass ms", "overhead")),
    ]
    return "\n\n".join([table(header, rows), "\n".join(map(str, findings))])
