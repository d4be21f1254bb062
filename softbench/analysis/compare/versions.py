"""Two versions of an implementation in the same heats: `mine` against `mine@REVISION`, paired."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from softbench.analysis.compare import VERDICTS
from softbench.analysis.compare.summary import change_figures, percent
from softbench.analysis.document import Document, table
from softbench.analysis.leaderboard import tiers
from softbench.analysis.leaderboard.formatting import milliseconds, plural, short, status_text
from softbench.analysis.leaderboard.ranks import last_of_both
from softbench.model import Case, Record, Run, Status, stats


@dataclass(frozen=True)
class VersionPair:
    """A cell and the one of its other version; change is new over old, None where one has no time in the other's heats."""

    new: Record
    old: Record
    change: stats.Comparison | None

    @property
    def fell(self) -> bool:
        """Whether only the other version passes, or is sealed."""
        is_worse = self.new.status.is_failure or tiers.is_lost(self.old, self.new)
        return self.old.status is Status.PASSED and is_worse

    @property
    def apart(self) -> str:
        return tiers.apart(self.new, self.old)

    @property
    def verdict(self) -> str:
        if self.apart:
            return f"{self.old.tier} -> {self.new.tier}"
        if self.fell or self.new.status is not self.old.status:
            return f"{status_text(self.old)} -> {status_text(self.new)}"
        return VERDICTS[self.change.verdict] if self.change else ""

    def fails(self, limit: float) -> bool:
        """Whether the new version fell, or is slower by a share of at least limit."""
        is_slower = self.change is not None and self.change.verdict == "slower" and self.change.ratio >= 1 + limit
        return self.fell or is_slower


def pairs(run: Run) -> list[VersionPair]:
    """All pairs of a run, in its order.

    Of an implementation with parameters, what each version chose for a case; and equal parameters whose statuses differ.
    """
    clock, found = run.passport.ranking_clock, []
    cells: dict[tuple[Case, str], list[Record]] = {}
    for record in run.records:
        if record.role == "entrant":
            cells.setdefault((record.case, record.variant.implementation), []).append(record)
    for (case, name), olds in cells.items():
        news = {r.variant.params: r for r in cells.get((case, name.partition("@")[0]), ()) if "@" in name}
        new, old = (next((r for r in records if r.clock(clock)), None) for records in (news.values(), olds))
        if new and old:
            heats = None if tiers.apart(new, old) else last_of_both(new.clock(clock), old.clock(clock))
            found.append(VersionPair(new, old, stats.compare(*heats) if heats else None))
        for then in olds:
            now = news.get(then.variant.params)
            if now and (not new or not old or now.status is not then.status):
                found.append(VersionPair(now, then, None))
    return found


def document(found: Iterable[VersionPair], clock: str) -> Document:
    rows = []
    for pair in found:
        heats = (record.clock(clock) for record in (pair.new, pair.old))
        times = (milliseconds(stats.per_launch_ns(own[-1])) if own else "" for own in heats)
        rows.append((pair.new.case.id, short(pair.old.variant.implementation), pair.verdict, *change_figures(pair.change), *times))
    header = ("case", "against", "", "change", "interval", "ms", "ms there")
    return table("Against another version, in the same rounds", header, rows, left=(0, 1, 2), labels=2)


def gate(found: Sequence[VersionPair], limit: float) -> str:
    if not found:
        return "fails: no cell of two versions can be compared"
    fell = sum(pair.fell for pair in found)
    slower = sum(pair.fails(limit) for pair in found) - fell
    if fell or slower:
        return f"fails: {plural(fell, 'cell')} fell, {plural(slower, 'cell')} slower by at least {percent(limit)}"
    unclear = sum(pair.verdict == "cannot tell" and pair.change.high >= 1 + limit for pair in found if pair.change)
    text = f"holds: of {plural(len(found), 'pair')} none fell, and none is slower by at least {percent(limit)}"
    return text + (f"; {plural(unclear, 'pair')} cannot be told" if unclear else "")
