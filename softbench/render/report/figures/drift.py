"""Changes of the machine over the run: the roof's time by placement, and the readings of telemetry."""

import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from softbench.analysis.leaderboard import Board
from softbench.model import Record, Telemetry, stats
from softbench.render.report.figure import Axis, Figure, FigureView, Series

READINGS: tuple[tuple[Axis, str, Callable[[Telemetry], int | None]], ...] = (
    (Axis("SM clock, MHz", form="reading"), "SM clock", lambda state: state.sm_clock_mhz),
    (Axis("temperature, °C", form="reading"), "temperature", lambda state: state.temperature_c),
    (Axis("power, W", form="reading"), "power", lambda state: state.power_w),
)
ROOF = Axis("roof, ± %")
FEWEST = 2
"""With fewer points there is nothing to see."""


def figure(board: Board) -> Figure:
    """One pane per reading; x counts placements in the order of the run's cases.

    A run on several GPUs has one view per GPU: the differences between them are no drift.
    """
    lines = {
        card: [
            _series("roof", "roof", records, partial(_over_median, board.passport.ranking_clock)),
            *(_series(name, "reading", records, partial(_readings, read)) for _, name, read in READINGS),
        ]
        for card, records in _by_card(board).items()
        if records
    }
    axes = [ROOF, *(axis for axis, _, _ in READINGS)]
    used = [number for number in range(len(axes)) if any(own[number] for own in lines.values())]
    views = []
    for turn, (card, own) in enumerate(lines.items(), start=1):
        series = [replace(s, pane=pane) for pane, number in enumerate(used) if (s := own[number]) is not None]
        label = "whole run" if len(lines) == 1 else f"GPU {turn} of {len(lines)}" + (f", {card[:12]}" if card else "")
        views.append(FigureView(label, series))
    where = "run" if len(lines) == 1 else "run on one GPU"
    return Figure(
        "drift",
        "Drift over the run",
        f"Over the placements of the {where}, in their order: the roof's time against its median in each case, "
        "SM clock, temperature and power.",
        Axis(f"placement, counted through the {where}"),
        [axes[number] for number in used],
        views,
    )


def _by_card(board: Board) -> dict[str, list[tuple[int, Record]]]:
    """Per GPU, in the order of the passport: (earlier placements on that GPU, record) of each case's roof, or if it has none of
    the entrant with most telemetry."""
    listed = board.passport.device.get("gpus")
    gpus = listed if isinstance(listed, (list, tuple)) else ()
    by_gpu: dict[str, list[tuple[int, Record]]] = {str(card): [] for card in gpus}
    before = Counter[str]()
    for case in board.timed:
        cells = [cell for cell in case.cells.values() if cell.samples]
        chosen = case.roof or max(cells, key=lambda cell: len(cell.record.telemetry), default=None)
        if chosen is not None:
            card = chosen.record.gpu
            by_gpu.setdefault(card, []).append((before[card], chosen.record))
            before[card] += max([len(chosen.record.telemetry), *(len(s.ns) for s in chosen.samples)])
    return by_gpu


def _series(
    name: str, role: str, records: list[tuple[int, Record]], values: Callable[[Record], list[tuple[int, float]]]
) -> Series | None:
    """The values of each record by placement: dots for a roof, a line for readings."""
    points = [
        (start + number + 1, value, f"{record.case.id}, placement {number + 1}")
        for start, record in records
        for number, value in values(record)
    ]
    if len(points) < FEWEST:
        return None
    x, y, keys = map(list, zip(*points, strict=True))
    return Series(name, x, y, keys, [-1] * len(x), role, loose=role == "roof", markers=role == "roof")


def _readings(read: Callable[[Telemetry], int | None], record: Record) -> list[tuple[int, float]]:
    return [(number, value) for number, state in enumerate(record.telemetry) if (value := read(state)) is not None]


def _over_median(clock: str, record: Record) -> list[tuple[int, float]]:
    """The placements of the first heat of a roof, and by how many per cent it was slower there than its median in the case."""
    heats = record.clock(clock) if record.role == "roof" else ()
    if not heats:
        return []
    middle = stats.per_launch_ns(heats[0]) * heats[0].launches
    known = [(number, rounds) for number, rounds in enumerate(heats[0].ns) if rounds]
    return [(number, round(100 * (statistics.median(rounds) / middle - 1), 3)) for number, rounds in known]
