"""Correctness: counts, the hard cases by implementation, and every failure and refusal with its reason."""

from collections.abc import Sequence

from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.analysis.leaderboard.formatting import Outcomes, outcomes, plural, short, status_text
from softbench.analysis.leaderboard.status_groups import status_groups
from softbench.render.report.contents import SIGNS, Contents, kind
from softbench.render.report.html import EMPTY, Markup, join, name, panel, row_head, table, tag
from softbench.render.report.panels.blocks import outcome

LEAD = (
    "Every output, in timed cases too, is compared as a whole with a float64 reference. Hard cases are inputs on which kernels are "
    "known to fail."
)


def correctness(contents: Contents) -> Markup:
    board = contents.board
    if not board.cases:
        return EMPTY
    hard = [part for operator in board.operators for part in _hard(contents, operator)]
    return panel("correctness", "Correctness", _counts(board), *hard, _groups(board), lead=LEAD)


def _counts(board: Board) -> Markup:
    counted = [(standing, outcomes(board, standing)._asdict()) for standing in board.ranking]
    used = [word for word in Outcomes._fields if any(counts[word] for _, counts in counted)]
    many = len(board.operators) > 1
    rows = [
        [
            row_head(name(standing.implementation)),
            *([tag("td", name(standing.operator), class_="label")] if many else []),
            *(_count(word, counts[word]) for word in used),
        ]
        for standing, counts in counted
    ]
    header = ["implementation", *(["operator"] if many else []), *used]
    return table(header, rows, left=(0, 1) if many else (0,), label="outcomes by implementation")


def _count(word: str, count: int) -> Markup:
    bad = word == "failed" and count > 0
    return tag("td", f"✗ {count}" if bad else count, class_="failed" if bad else None)


def _hard(contents: Contents, operator: str) -> list[Markup]:
    """The matrices of one operator: cases that somebody fails, and all others, folded."""
    cases = [case for case in contents.board.cases if case.case.operator == operator and not case.case.timed]
    if not cases:
        return []
    bad = [case for case in cases if any(cell.status.is_failure for cell in case.cells.values())]
    good = [case for case in cases if case not in bad]
    parts = [tag("h3", "Hard cases: ", tag("bdi", short(operator)))]
    if bad:
        body = _matrix(contents, operator, bad, f"{operator}: hard cases that somebody fails")
        parts += [tag("h4", f"Somebody fails ({len(bad)})"), body]
    if good:
        body = _matrix(contents, operator, good, f"{operator}: hard cases that nobody fails")
        parts.append(tag("details", tag("summary", f"Nobody fails ({len(good)})"), body, class_="small"))
    return parts


def _columns(board: Board, operator: str, cases: Sequence[CaseBoard]) -> list[str]:
    """Who was put to these cases, those that fail most of them first, then in the order of the ranking."""
    names = [standing.implementation for standing in board.standings(operator)]
    failed = {who: sum(who in c.cells and c.cells[who].status.is_failure for c in cases) for who in names}
    names.sort(key=lambda who: -failed[who])
    return [who for who in names if any(who in case.cells for case in cases)]


def _matrix(contents: Contents, operator: str, cases: Sequence[CaseBoard], label: str) -> Markup:
    shown = _columns(contents.board, operator, cases)
    heads = (row_head(tag("bdi", short(case.case.id, 100)), title=case.case.id) for case in cases)
    rows = [[head, *(_cell(contents, case.cells.get(who)) for who in shown)] for head, case in zip(heads, cases, strict=True)]
    header = ["case", *(name(who, 16) for who in shown)]
    return table(header, rows, label=label, class_="matrix", data_grid="")


def _cell(contents: Contents, cell: Cell | None) -> Markup:
    """A sign, and a word: shown if it failed, else for screen readers only."""
    if cell is None:
        return tag("td", class_="none")
    what = kind(cell.record)
    failed = what in ("failed", "declared")
    word = tag("span", f" {status_text(cell.record) if failed else what}", class_=None if failed else "unseen")
    return tag("td", SIGNS[what], word, class_=what, data_cell=contents.cells.number(cell))


def _groups(board: Board) -> Markup:
    groups = status_groups(board)
    if not groups:
        return tag("p", f"Nothing failed and nothing was refused, of {plural(len(board.records), 'cell')}.", class_="note")
    return join([tag("h3", "Failures and refusals"), tag("ul", *(outcome(group) for group in groups), class_="plain")])
