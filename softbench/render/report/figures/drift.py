"""Changes of the machine over the run: the roof's time by placement, and the readings of telemetry."""

import statistics
from collections.abc import Callable
from dataclasses import replace

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
    cards = _by_card(board)
    lines = {card: [_roof(board, records), *(_reading(records, *which) for which in READINGS)] for card, records in cards}
    axes = [ROOF, *(axis for axis, _, _ in READINGS)]
    used = [number for number in range(len(axes)) if any(own[number] for own in lines.values())]
    views = []
    for turn, (card, own) in enumerate(lines.items(), start=1):
        series = [replace(s, pane=pane) for pane, number in enumerate(used) if (s := own[number]) is not None]
        label = "whole run" if len(lines) == 1 else f"GPU {turn} of {len(lines)}" + (f", {card[:12]}" if card else "")
        views += [FigureView(label, series)] if series else []
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


def _by_card(board: Board) -> list[tuple[str, list[tuple[int, Record]]]]:
    """Per GPU, in the order of the passport: (earlier placements on that GPU, record) of each case's roof, or if it has none of
    the entrant with most telemetry."""
    listed = board.passport.device.get("gpus")
    gpus = listed if isinstance(listed, (list, tuple)) else ()
    by_gpu: dict[str, list[tuple[int, Record]]] = {str(card): [] for card in gpus}
    before: dict[str, int] = {}
    for case in board.timed:
        cells = [cell for cell in case.cells.values() if cell.samples]
        chosen = case.roof or max(cells, key=lambda cell: len(cell.record.telemetry), default=None)
        if chosen is not None:
            card = chosen.record.gpu
            by_gpu.setdefault(card, []).append((before.get(card, 0), chosen.record))
            placements = max([len(chosen.record.telemetry), *(len(s.ns) for s in chosen.samples)])
            before[card] = before.get(card, 0) + placements
    return [(card, records) for card, records in by_gpu.items() if records]


def _roof(board: Board, records: list[tuple[int, Record]]) -> Series | None:
    places = [place for _, record in records for place in _places(board, record)]
    keys = [f"{record.case.id}, placement {p + 1}" for _, record in records for p in _numbers(board, record)]
    starts = [start + p + 1 for start, record in records for p in _numbers(board, record)]
    if len(places) < FEWEST:
        return None
    return Series("roof", starts, places, keys, [-1] * len(places), "roof", loose=True)


def _reading(records: list[tuple[int, Record]], axis: Axis, name: str, read: Callable[[Telemetry], int | None]) -> Series | None:
    taken = [
        (start + number + 1, value, f"{record.case.id}, placement {number + 1}")
        for start, record in records
        for number, state in enumerate(record.telemetry)
        if (value := read(state)) is not None
    ]
    if len(taken) < FEWEST:
        return None
    x, y, keys = map(list, zip(*taken, strict=True))
    return Series(name, x, y, keys, [-1] * len(x), "reading", markers=False)


def _numbers(board: Board, record: Record) -> list[int]:
    """The placements of the first heat with a sample of the roof."""
    heats = record.clock(board.passport.ranking_clock) if record.role == "roof" else ()
    return [number for number, rounds in enumerate(heats[0].ns) if rounds] if heats else []


def _places(board: Board, record: Record) -> list[float]:
    """For each placement of `_numbers`: by how many per cent the roof was slower than its median in the case."""
    numbers = _numbers(board, record)
    if not numbers:
        return []
    heat = record.clock(board.passport.ranking_clock)[0]
    middle = stats.per_launch_ns(heat) * heat.launches
    return [round(100 * (statistics.median(heat.ns[number]) / middle - 1), 3) for number in numbers]
