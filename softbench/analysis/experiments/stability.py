"""Experiment 1: what happens without the maximum when inputs are large."""

from __future__ import annotations

import re

from softbench.analysis.document import Part, Table
from softbench.analysis.experiments.evidence import Evidence, finding, listed
from softbench.analysis.leaderboard import Cell
from softbench.model import Status
from softbench.records.published import PublishedTable

RANGES = {"uniform_0_10": "[0, 10]", "uniform_500_1000": "[500, 1000]"}


def section(evidence: Evidence, published: PublishedTable) -> list[Part]:
    """One row of 1000 elements in two ranges, with and without the maximum subtracted."""
    rows = []
    for entry in published.rows:
        cell = evidence.cell(_id(entry["elements"], entry["distribution"]), entry["implementation"])
        output = f"sum {entry['sum_of_output']}, NaN or Inf: {entry['nonfinite']}"
        inputs = RANGES.get(entry["distribution"], entry["distribution"])
        rows.append((entry["implementation"], inputs, output, _outcome(cell)))
    unsafe, safe = evidence.player("unsafe"), evidence.player("safe")
    small, large = (evidence.cell(_id("1000", inputs), unsafe) for inputs in RANGES)
    findings = (
        finding("Without the maximum softmax is right while exp does not overflow.", [_is_right(small)]),
        finding("Without it, inputs from 500 on make NaN.", [_is_nan(large)], large.record.reason if large else ""),
        finding("With it, they do not.", [_is_right(evidence.cell(_id("1000", "uniform_500_1000"), safe))]),
    )
    return [Table(("implementation", "inputs", "published", "here"), tuple(rows)), listed(findings)]


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
