"""The runs by machine: leads, and the history of each operator over cases that its runs share."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from softbench.analysis.compare import Move
from softbench.analysis.compare.surroundings import Change, of_passports
from softbench.analysis.history import STEP, History, Line, Point, Step, anchored, by_machine, titled
from softbench.analysis.leaderboard.formatting import dtype_text, plural
from softbench.analysis.ledger import Entry, Kept, belief, move, why_apart
from softbench.analysis.ledger.leads import Leads
from softbench.model import stats

ENOUGH = 0.5
"""Share of the newest run's cases that an earlier one must have to be compared: else few cases would be left to all."""


@dataclass(frozen=True)
class Machine:
    """The runs of one clock and hardware by time; key tells it from machines of the same name. by_case and by_name have
    the entries with the place of their run.
    """

    key: tuple[str, ...]
    title: str
    runs: tuple[Kept, ...]
    leads: Leads
    histories: dict[str, History]
    by_case: dict[str, list[tuple[int, Entry]]]
    by_name: dict[str, list[tuple[int, Entry]]]

    def cards(self) -> set[str]:
        return {entry.card for run in self.runs for entry in run.entries if entry.card}


def machines(runs: Sequence[Kept]) -> tuple[Machine, ...]:
    """One per machine, by title. The beliefs of all entries are judged first."""
    belief.judge(runs)
    groups = by_machine(runs)
    titles = {key: titled(own[-1].passport) for key, own in groups.items()}
    alike = Counter(titles.values())
    for key, title in titles.items():
        own = hashlib.sha256(repr(key).encode()).hexdigest()[:6]
        titles[key] = f"{title} [{own}]" if alike[title] > 1 else title
    found = [_machine(key, titles[key], tuple(own)) for key, own in groups.items()]
    return tuple(sorted(found, key=lambda machine: machine.title))


def _machine(key: tuple[str, ...], title: str, runs: tuple[Kept, ...]) -> Machine:
    operators = sorted({entry.case.operator for run in runs for entry in run.entries})
    histories = {name: _history(title, _only(runs, name)) for name in operators}
    by_case: dict[str, list[tuple[int, Entry]]] = {}
    by_name: dict[str, list[tuple[int, Entry]]] = {}
    leads = Leads()
    for at, run in enumerate(runs):
        leads.add(at, run)
        for entry in run.entries:
            by_case.setdefault(entry.id, []).append((at, entry))
            by_name.setdefault(entry.implementation, []).append((at, entry))
    return Machine(key, title, runs, leads, histories, by_case, by_name)


def _only(runs: Sequence[Kept], operator: str) -> list[tuple[Kept, list[Entry]]]:
    """The runs with entries of an operator, and these, without claims."""
    kept = ((run, [e for e in run.entries if not run.sent or e.belief == belief.REPRODUCED]) for run in runs)
    return [(run, own) for run, found in kept if (own := [entry for entry in found if entry.case.operator == operator])]


def _history(title: str, runs: Sequence[tuple[Kept, list[Entry]]]) -> History:
    timed = tuple(len({entry.id for entry in own if entry.ns}) for _, own in runs)
    passports = tuple(run.passport for run, _ in runs)
    return History(title, passports, timed, tuple(_scores(runs)), (), tuple(_steps(runs)))


def _scores(runs: Sequence[tuple[Kept, list[Entry]]]) -> Iterator[Line]:
    """By dtypes: the geometric means of each implementation over the cases that all runs compared share."""
    by_dtype: dict[str, list[dict[str, dict[str, float]]]] = {}
    for at, (_, own) in enumerate(runs):
        warm = {entry.id for entry in own if entry.warm}
        for entry in own:
            if entry.percent and entry.counts:
                dtype = dtype_text(entry.case.dtype, entry.case.out_dtype)
                cells = by_dtype.setdefault(dtype, [{} for _ in runs])[at]
                # a redefined operator has other cases, and so has another L2 cache
                question = f"{entry.id} {entry.operator_hash} {entry.id in warm}"
                cells.setdefault(question, {})[entry.implementation] = entry.percent
    for dtype, asked in sorted(by_dtype.items()):
        shared, compared = fixed([set(own) for own in asked])
        of = f"{dtype}: {plural(len(shared), 'case')} of {plural(len(compared), 'run')}"
        points: dict[str, list[Point]] = {}
        for at in compared:
            for name in set.intersection(*(set(asked[at][case]) for case in shared)):
                mean = stats.geometric_mean(asked[at][case][name] for case in shared)
                points.setdefault(name, []).append(Point(at, mean))
        yield from (Line(of, name, tuple(own)) for name, own in sorted(points.items()))


def fixed(asked: Sequence[set[str]]) -> tuple[list[str], list[int]]:
    """The cases that all compared runs share, and these runs: the newest, and those before that leave `ENOUGH` of its cases."""
    compared = [at for at, cases in enumerate(asked) if cases]
    shared = newest = asked[compared[-1]]
    kept = compared[-1:]
    for at in compared[-2::-1]:
        if len(shared & asked[at]) >= ENOUGH * len(newest):
            shared, kept = shared & asked[at], [at, *kept]
    return sorted(shared), kept


def _steps(runs: Sequence[tuple[Kept, list[Entry]]]) -> Iterator[Step]:
    seen = ((at, entry.case, entry.implementation, entry) for at, (_, own) in enumerate(runs) for entry in own)
    for at, since, operator, name, cells in anchored(seen, _changed, lambda _, a, b: why_apart(a, b)):
        pair = runs[since], runs[at]
        before, after = (next(e.source for e in own if e.implementation == name) for _, own in pair)
        source = [Change(f"source of {name}", before[:12], after[:12])] if before != after else []
        others = of_passports(*(run.passport for run, _ in pair))
        yield Step(operator, name, at, since, cells, (*source, *others))


def _changed(name: str, before: Entry, after: Entry) -> Move | None:
    """The cell in both runs, if it changed by a step."""
    timed = before.status == after.status and before.percent and after.percent
    if timed and abs(before.percent / after.percent - 1) < STEP:
        return None
    found = move(before, after)
    return found if found and (found.moved or found.is_changed) else None
