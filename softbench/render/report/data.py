"""A board as plain data for the page's script: every cell with its figures and its raw samples.

The script computes speed-ups over any baseline from the samples. Times are nanoseconds.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from softbench.analysis.leaderboard import CaseBoard, Cell
from softbench.analysis.leaderboard.estimates import ERROR, FREEDOM
from softbench.analysis.leaderboard.formatting import interval_text, rank_mark, status_text
from softbench.model import OPEN, Passport, Samples, notes, stats
from softbench.render.report.contents import Contents, baselines, kind, peak_gb_s, repeat_command
from softbench.render.report.drawing.styles import Looks, style_of
from softbench.render.report.figure import Figure
from softbench.render.report.tinted import Measure, with_figures

DIGITS = 6


def payload(contents: Contents) -> dict[str, Any]:
    board, cells = contents.board, contents.cells
    cases = {case.case.id: number for number, case in enumerate(board.cases)}
    names = {name: number for number, name in enumerate(cells.implementations)}
    shown = {key: measure for key, measure in with_figures(board).items() if key != "speedup"}
    variants: list[Any] = []
    keys: dict[tuple[str, str], int] = {}
    rows = []
    for case, cell in cells.all:
        own = cell.record.variant
        number = keys.setdefault((own.id, own.source_hash), len(keys))
        if number == len(variants):
            told = {"id": own.id, "family": own.family, "path": own.path, "source": own.source_hash, "summary": own.summary}
            variants.append(told)
        who = {"case": cases[case.case.id], "impl": names[own.implementation], "variant": number}
        rows.append(who | _cell(case, cell, board.passport, shown))
    return {
        "baseline": board.baseline,
        "baselines": baselines(board),
        "clock": board.passport.ranking_clock,
        "peak": peak_gb_s(board),
        "critical": [_rounded(stats.student_t(freedom, ERROR)) for freedom in range(1, FREEDOM + 1)],
        "implementations": cells.implementations,
        "cases": [{"id": case.case.id} for case in board.cases],
        "variants": variants,
        "cells": rows,
        "slices": [[cases[case.case.id] for case in part.cases] for part in contents.slices],
        "figures": [figure_data(figure, cells.looks) for figure in contents.figures.values()],
    }


def figure_data(figure: Figure, looks: Looks) -> dict[str, Any]:
    """A figure for the script, each series with its colour, its dash and its sign by plotly's name."""
    data = asdict(figure)
    for view, drawn in zip(figure.views, data["views"], strict=True):
        for entry, own in zip(view.series, drawn["series"], strict=True):
            style = style_of(entry, looks)
            symbol = "line-ew" if style.shape == "line" else style.shape
            own["look"] = [style.colour, style.dash, symbol + "-open" * style.is_open]
    return data


def _cell(case: CaseBoard, cell: Cell, passport: Passport, shown: Mapping[str, Measure]) -> dict[str, Any]:
    record = cell.record
    has_interval = "±" in interval_text(cell)
    fields = {
        "role": OPEN if cell.is_open else record.role if record.role != "entrant" else "",
        "other": cell.record in case.others,
        "status": status_text(record),
        "kind": kind(record),
        "rank": cell.rank,
        "mark": rank_mark(cell),
        "dagger": cell.dagger,
        "warm": cell.is_warm,
        "unsteady": cell.is_unsteady,
        "overlap": cell.is_overlapping,
        "ns": _rounded(cell.latency_ns),
        "low": _rounded(cell.low_ns) if has_interval else None,
        "high": _rounded(cell.high_ns) if has_interval else None,
        "spread": interval_text(cell),
        "gbs": _rounded(cell.bandwidth_gb_s),
        "tflops": _rounded(cell.tflop_s),
        "roof": _rounded(cell.percent_of_roof),
        "shown": _shown(case, cell, shown),
        "ideal": record.ideal_bytes,
        "best_of": record.best_of if record.best_of > 1 else 0,
        "gpu": record.gpu,
        "reason": record.reason,
        "known": record.known_failure,
        "notes": [*([f"{OPEN}: {record.open_because}"] if record.open_because else []), *map(notes.sentence, record.notes)],
        "again": repeat_command(record, passport) if record.role != "roof" else "",
        "kernels": [list(vars(kernel).values()) for kernel in record.kernels],
        "traffic": _traffic(cell),
        "errors": list(vars(record.accuracy).values()) if record.accuracy else None,
        "telemetry": [list(vars(state).values()) for state in record.telemetry],
        "samples": [_samples(samples) for samples in record.samples],
    }
    return {key: value for key, value in fields.items() if value or (value == 0 and key == "roof")}


def _shown(case: CaseBoard, cell: Cell, measures: Mapping[str, Measure]) -> dict[str, Any]:
    """By measure of the heat map: text, depth of the tint, whether it is that for less."""
    if cell.latency_ns is None:
        return {}
    return {
        key: [measure.text(value), round(measure.heat(value, case), 2), measure.less(value)]
        for key, measure in measures.items()
        if (value := measure.value(cell)) is not None
    }


def _traffic(cell: Cell) -> list[float | None] | None:
    """[factor, bytes read, bytes written, ns of its kernels, hit rates of L1 and L2 in %, ...as in Traffic]."""
    counted = cell.record.traffic
    return None if counted is None else [_rounded(cell.traffic_factor), *vars(counted).values()]


def _samples(samples: Samples) -> dict[str, Any]:
    """Exact, as whole steps above the smallest sample: that takes a quarter of the digits."""
    values = [value for rounds in samples.ns for value in rounds]
    base = min(values, default=0)
    step = math.gcd(*(value - base for value in values)) or 1
    return {
        "clock": samples.clock,
        "launches": samples.launches,
        "cache": samples.cache,
        "heat": samples.heat,
        "base": base,
        "step": step,
        "rounds": [[(value - base) // step for value in rounds] for rounds in samples.ns],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")
