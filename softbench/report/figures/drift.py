"""How the machine changed over the run: the roof's time from placement to placement, and what telemetry read."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from softbench import stats
from softbench.leaderboard import Board
from softbench.model import Record, Telemetry
from softbench.report.figure import Axis, Figure, Series, View

READINGS: tuple[tuple[Axis, str, Callable[[Telemetry], int | None]], ...] = (
    (Axis("SM clock, MHz", form="reading"), "SM clock", lambda state: state.sm_clock_mhz),
    (Axis("temperature, °C", form="reading"), "temperature", lambda state: state.temperature_c),
    (Axis("power, W", form="reading"), "power", lambda state: state.power_w),
)
FEWEST = 2
"""Points without which there is nothing to see."""


def figure(board: Board) -> Figure | None:
    """One pane a reading that was taken; x counts placements through the run, in the order of its cases."""
    records = list(_steady(board))
    panes: list[Axis] = []
    series: list[Series] = []
    places = [place for _, record in records for place in _places(board, record)]
    if len(places) >= FEWEST:
        panes.append(Axis("roof, ± %"))
        keys = [f"{record.case.id}, placement {p + 1}" for _, record in records for p in _numbers(board, record)]
        starts = [start + p + 1 for start, record in records for p in _numbers(board, record)]
        series.append(Series("roof", starts, places, keys, [-1] * len(places), "roof", loose=True))
    for axis, name, read in READINGS:
        taken = _readings(records, read)
        if len(taken) >= FEWEST:
            x, y, keys = map(list, zip(*taken, strict=True))
            series.append(Series(name, x, y, keys, [-1] * len(x), "reading", pane=len(panes), markers=False))
            panes.append(axis)
    if not panes:
        return None
    return Figure(
        "drift",
        "Drift over the run",
        "Over the placements of the run, in their order: the roof's time against its median in each case, "
        "SM clock, temperature and power.",
        Axis("placement, counted through the run"),
        panes,
        [View("whole run", series)],
    )


def _steady(board: Board) -> Iterator[tuple[int, Record]]:
    """(placements before it, record) of what ran in every round of a case: the roof, else its best-read entrant."""
    before = 0
    for case in board.timed:
        cells = [cell for cell in case.cells.values() if cell.samples]
        chosen = case.roof or max(cells, key=lambda cell: len(cell.record.telemetry), default=None)
        if chosen is not None:
            yield before, chosen.record
            before += max([len(chosen.record.telemetry), *(len(s.ns) for s in chosen.samples)])


def _numbers(board: Board, record: Record) -> list[int]:
    """The placements of the first heat in which the roof has a sample."""
    heats = record.clock(board.passport.ranking_clock) if record.role == "roof" else ()
    return [number for number, rounds in enumerate(heats[0].ns) if rounds] if heats else []


def _places(board: Board, record: Record) -> list[float]:
    """Per placement of `_numbers`: by how many per cent the roof was slower than its median in the case."""
    numbers = _numbers(board, record)
    if not numbers:
        return []
    heat = record.clock(board.passport.ranking_clock)[0]
    middle = stats.per_launch_ns(heat) * heat.launches
    return [round(100 * (statistics.median(heat.ns[number]) / middle - 1), 3) for number in numbers]


def _readings(
    records: list[tuple[int, Record]], read: Callable[[Telemetry], int | None]
) -> list[tuple[float, float, str]]:
    return [
        (start + number + 1, value, f"{record.case.id}, placement {number + 1}")
        for start, record in records
        for number, state in enumerate(record.telemetry)
        if (value := read(state)) is not None
    ]
