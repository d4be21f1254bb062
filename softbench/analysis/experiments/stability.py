"""Experiment 1: what happens without the maximum when inputs are large."""

from __future__ import annotations

import re

from softbench.analysis.experiments.evidence import Evidence, finding, table
from softbench.analysis.leaderboard import Cell
from softbench.model import Status
from softbench.records.published import PublishedTable

NAIVE, STABLE = "cuda_naive", "cuda_multi_pass"
RANGES = {"uniform_0_10": "[0, 10]", "uniform_500_1000": "[500, 1000]"}


def section(evidence: Evidence, published: PublishedTable) -> str:
    """One row of 1000 elements in two ranges, with and without the maximum subtracted."""
    rows = []
    for entry in published.rows:
        cell = evidence.cell(_id(entry["elements"], entry["distribution"]), entry["implementation"])
        said = f"sum {entry['sum_of_output']}, NaN or Inf: {entry['nonfinite']}"
        inputs = RANGES.get(entry["distribution"], entry["distribution"])
        rows.append([entry["implementation"], inputs, said, _outcome(cell)])
    safe, large = (evidence.cell(_id("1000", inputs), NAIVE) for inputs in RANGES)
    stable = evidence.cell(_id("1000", "uniform_500_1000"), STABLE)
    findings = [
        finding("Without the maximum softmax is right while exp does not overflow.", [_is_right(safe)]),
        finding("Without it, inputs from 500 on make NaN.", [_is_nan(large)], large.record.reason if large else ""),
        finding("With it, they do not.", [_is_right(stable)]),
    ]
    header = ["implementation", "inputs", "published", "here"]
    return "\n\n".join([table(header, rows), "\n".join(map(str, findings))])


def _id(elements: str, distribution: str) -> str:
    return f"softmax-float32-1x{elements}-{distribution}"


def _outcome(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    if cell.status is Status.PASSED:
        return "every element and the row sum right, against float64"
    return f"{cell.status.value}: {cell.record.reason}"


def _is_right(cell: Cell | None) -> bool | None:
    return None if cell is None or cell.status.is_refusal else cell.status is Status.PASSED


def _is_nan(cell: Cell | None) -> bool | None:
    """Whether it failed, and by NaN or infinity rather than by another mistake."""
    if cell is None or cell.status.is_refusal:
        return None
    return cell.status is Status.INCORRECT and re.search(r"\b(nan|inf)\b", cell.record.reason.lower()) is not None
