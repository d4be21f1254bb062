"""A comparison as a document and as datasets. Pure."""

import math
import statistics
from collections.abc import Iterable, Iterator

from softbench.analysis.compare import FELL, OTHER, ROSE, UNSEALED, VERDICTS, Pair, RunComparison
from softbench.analysis.document import Dataset, Document, Heading, Part, lines, table
from softbench.analysis.leaderboard import Cell
from softbench.analysis.leaderboard.formatting import first_line, milliseconds, number, plural, short, some, status_text
from softbench.model import stats

HOW = (
    "Change: time over that of the roof in the same rounds, after against before. Intervals are Welch's over the placements of "
    "both runs, and wider where the trial chose another roof kernel. Same: the interval contains 0 and is within ±0.5 %. Cannot "
    "tell: it contains 0 and is wider."
)
COLUMNS = (
    *("case", "implementation", "moved", "status_before", "status_after", "verdict", "ratio", "low", "high"),
    *("placements", "latency_ns_before", "latency_ns_after", "percent_of_roof_before", "percent_of_roof_after"),
    *("source_before", "source_after", "notes", "reason_after"),
)
"""Of a cell in two runs; ratio, low and high are time over the roof's, after / before."""
REASON = 60


def document(comparison: RunComparison, whole: bool = False, fold: bool = False) -> Document:
    """Changes of status, what else changed, a row per implementation, and the cells that changed; with whole all others too.

    With fold (for a page) those are folded.
    """
    parts: list[Part] = [Heading(f"{comparison.after.run_id} against {comparison.before.run_id}")]
    parts += lines(verdict(comparison))
    parts += _moves(comparison)
    surroundings = [(change.what, change.before, change.after) for change in comparison.changes]
    parts += table("What else changed", ("what", "before", "after"), surroundings, left=(0, 1, 2))
    parts += lines(_roof(comparison))
    parts += by_implementation(comparison)
    for word in VERDICTS.values():
        cells = comparison.of(word)
        if cells and (whole or word in ("slower", "faster")):
            title = f"{word.capitalize()}: {plural(len(cells), 'cell')}"
            parts += _changes(title, cells, folded=fold and word not in ("slower", "faster"))
    others = rest(comparison, comparison.before.run_id, comparison.after.run_id)
    return [*parts, *lines(*others, HOW if any(cell.change for cell in comparison.cells) else "")]


def cells(comparison: RunComparison) -> Document:
    """For the author of a kernel who has changed a line: one row per cell that was asked for, and nothing else."""
    header = ("case", "implementation", "", "change", "interval", "ms", "ms was", "% of roof")
    rows = []
    for cell in comparison.cells:
        if cell.after.record.role == "entrant":
            a, b, change = cell.before, cell.after, cell.change
            word = f"{cell.moved}: {status_text(b.record)}" if cell.moved else cell.verdict or status_text(b.record)
            figures = (change_text(change.ratio), interval_text(change)) if change else ("", "")
            rows.append((cell.case.id, short(cell.implementation), word, *figures, *times(a, b)[:3]))
    return [*table("Since the last run", header, rows, left=(0, 1, 2), labels=2), *lines(*_not_compared(comparison))]


def verdict(comparison: RunComparison) -> str:
    """The result in one sentence, status first."""
    counts = [(len(comparison.moved(how)), word) for how, word in ((FELL, "fell"), (ROSE, "rose"), (OTHER, "changed"))]
    changed = ", ".join(f"{count} {word}" for count, word in counts if count)
    status = f"Status: {changed}." if changed else "No status changed."
    timed = sum(bool(cell.verdict) for cell in comparison.cells)
    if not timed:
        return f"{status} No cell has a time in both runs."
    verdicts = ", ".join(f"{len(comparison.of(word))} {_plainly(word)}" for word in VERDICTS.values())
    return f"{status} Of {plural(timed, 'timed cell')} {verdicts}."


def gate(comparison: RunComparison, limit: float) -> str:
    """Whether a limit holds, in one line."""
    failures, unclear = comparison.failures(limit), comparison.unclear(limit)
    fell, lost = len(comparison.moved(FELL)), len(comparison.unsealed)
    if failures:
        slower = f"{plural(len(failures) - fell - lost, 'cell')} slower by at least {percent(limit)}"
        seals = f"{plural(lost, 'cell')} {UNSEALED}, " if lost else ""
        text = f"fails: {plural(fell, 'cell')} fell, {seals}{slower}"
    else:
        text = f"holds: no cell fell, and none is slower by at least {percent(limit)}"
    return text + (f"; {plural(unclear, 'cell')} cannot be told" if unclear else "")


def datasets(comparison: RunComparison, limit: float | None = None) -> Iterator[Dataset]:
    """Every cell under `COLUMNS`, what else differs, and with a limit whether it holds."""
    yield Dataset("cells", COLUMNS, tuple(map(pair_row, comparison.cells)))
    runs = (("before", comparison.before.run_id), ("after", comparison.after.run_id))
    yield Dataset("runs", ("which", "run"), runs)
    changes = tuple((change.what, change.before, change.after) for change in comparison.changes)
    yield Dataset("changes", ("what", "before", "after"), changes)
    yield Dataset("roof", ("ratio",), tuple((ratio,) for ratio in comparison.roof))
    left = [(cell, reason) for cell, reason in comparison.apart]
    for ids, run in ((comparison.gone, comparison.before), (comparison.new, comparison.after)):
        left += [(cell, f"only in {run.run_id}") for cell in ids]
    yield Dataset("not_compared", ("cell", "reason"), tuple(left))
    if limit is not None:
        failing = tuple(f"{pair.case.id}::{pair.implementation}" for pair in comparison.failures(limit))
        row = (limit, not failing, failing, comparison.unclear(limit))
        yield Dataset("limit", ("limit_share", "holds", "failing_cells", "unclear_cells"), (row,))


def pair_row(pair: Pair) -> tuple[object, ...]:
    """A cell of two runs under `COLUMNS`."""
    change, before, after = pair.change, pair.before, pair.after
    figures = (change.ratio, change.low, change.high, change.placements) if change else (None,) * 4
    return (
        *(pair.case.id, pair.implementation, pair.moved),
        *(status_text(before.record), status_text(after.record), pair.verdict, *figures),
        *(before.latency_ns, after.latency_ns, before.percent_of_roof, after.percent_of_roof),
        *(before.record.variant.source_hash, after.record.variant.source_hash),
        *(pair.notes, after.record.reason),
    )


def percent(share: float) -> str:
    return f"{100 * share:g} %"


def change_text(ratio: float) -> str:
    """A factor as a change: "+2.1 %"; "?" without one."""
    return f"{round(100 * (ratio - 1), 2) + 0.0:+.2f} %" if math.isfinite(ratio) else "?"


def interval_text(change: stats.Comparison) -> str:
    """The interval of a change; "unknown" if it may be a factor of two either way."""
    if change.half_width > math.log(2):
        return "unknown"
    return f"{change_text(change.low)} to {change_text(change.high)}"


def _plainly(verdict: str) -> str:
    return {"cannot tell": "cannot be told", "same": "the same"}.get(verdict, verdict)


def _moves(comparison: RunComparison) -> list[Part]:
    header = ("", "case", "implementation", "before", "after", "reason")
    rows = []
    for cell in [*comparison.moved(FELL), *comparison.moved(ROSE), *comparison.moved(OTHER)]:
        a, b = cell.before.record, cell.after.record
        reason = short(first_line(b.reason or a.reason), REASON)
        rows.append((cell.moved, cell.case.id, short(cell.implementation), status_text(a), status_text(b), reason))
    return table("Changes of status", header, rows, left=(0, 1, 2, 3, 4, 5), labels=3)


def by_implementation(comparison: RunComparison, folded: bool = False) -> list[Part]:
    """One row per implementation, without zeros; its change is the geometric mean over the cells with one."""
    header = ("implementation", *VERDICTS.values(), "mean change", "fell", "rose", "source")
    rows = []
    for name in sorted({cell.implementation for cell in comparison.cells}):
        own = [cell for cell in comparison.cells if cell.implementation == name]
        ratios = [c.change.ratio for c in own if c.change and math.isfinite(c.change.ratio)]
        words = [*(cell.verdict for cell in own), *(cell.moved for cell in own)]
        changed = any(c.before.record.variant.source_hash != c.after.record.variant.source_hash for c in own)
        *verdicts, fell, rose = (str(words.count(word) or "") for word in (*VERDICTS.values(), FELL, ROSE))
        mean = change_text(stats.geometric_mean(ratios)) if ratios else ""
        rows.append((short(name), *verdicts, mean, fell, rose, "changed" if changed else ""))
    return table("By implementation", header, rows, folded=folded)


def _changes(title: str, cells: Iterable[Pair], folded: bool) -> list[Part]:
    header = ("case", "implementation", "change", "interval", "ms", "ms was", "% of roof", "% was", "notes")
    rows = []
    for cell in cells:
        a, b, change = cell.before, cell.after, cell.change
        assert change is not None
        who = (cell.case.id, short(cell.implementation))
        figures = (change_text(change.ratio), interval_text(change), *times(a, b))
        rows.append((*who, *figures, "; ".join(map(brief, cell.notes))))
    return table(title, header, rows, left=(0, 1, 8), folded=folded, labels=2)


def times(a: Cell, b: Cell) -> tuple[str, ...]:
    """Times and shares of the roof, each after and before."""
    texts = (number(x.latency_ns, milliseconds) + (" w" if x.is_warm else "") for x in (b, a))
    return (*texts, *(number(x.percent_of_roof, "{:.1f}".format) for x in (b, a)))


def brief(note: str) -> str:
    """A note for the end of a row: the row names the implementation already."""
    return "another source" if note.startswith("two versions of") else note


def _roof(comparison: RunComparison) -> str:
    """How the roof's own time changed."""
    if not comparison.roof:
        return ""
    low, high = change_text(min(comparison.roof)), change_text(max(comparison.roof))
    middle = change_text(statistics.median(comparison.roof))
    where = f"of {plural(len(comparison.roof), 'case')} with the same roof kernel"
    return f"The roof's own time: {middle} in the median {where}, {low} to {high}."


def rest(comparison: RunComparison, old: str, new: str) -> Iterator[str]:
    """Which cells are not compared, and which only one of the runs has; old and new are what the runs are called."""
    yield from _not_compared(comparison)
    for ids, name in ((comparison.gone, old), (comparison.new, new)):
        if ids:
            yield f"Only in {name}: {plural(len(ids), 'cell')} ({some(sorted(ids))})."


def _not_compared(comparison: RunComparison) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for cell, reason in sorted(comparison.apart):
        reasons.setdefault(reason, []).append(cell)
    for reason, cells in reasons.items():
        yield f"Not compared: {some(cells)}: {reason}."
