"""The ranking of every operator, over all its cases and over parts of them."""

from softbench.analysis.leaderboard import Board, Standing, by_values
from softbench.analysis.leaderboard.estimates import Estimate, figure, plus_minus
from softbench.analysis.leaderboard.formatting import baseline_text, plural, short
from softbench.analysis.leaderboard.regimes import REGIMES, regime
from softbench.analysis.leaderboard.remarks import clock_note, why_marked, why_open
from softbench.analysis.leaderboard.tiers import scored_of
from softbench.model import OPEN
from softbench.render.report.contents import Contents
from softbench.render.report.drawing.styles import MUTED, RULE, Style
from softbench.render.report.drawing.svg_elements import line, sign, text
from softbench.render.report.html import EMPTY, Markup, join, name, panel, row_head, table, tag
from softbench.render.report.panels.blocks import key


def ranking(contents: Contents) -> Markup:
    board = contents.board
    if not board.has_scores:
        return EMPTY
    parts: list[Markup] = []
    for operator in board.operators:
        if any(standing.score is not None for standing in board.standings(operator)):
            parts += [tag("h3", tag("bdi", operator))] if len(board.operators) > 1 else []
            parts += [_whole(contents, operator), _unranked(board, operator), _parts(contents, operator)]
    note = (
        "Speed-up: geometric mean of the ratios of the cases that both passed. ± and [ ]: what the placements leave open with "
        "95 % for these cases, not for others; digits below it are left out."
    )
    notes = [tag("p", said, class_="note") for said in (clock_note(board), note, *by_values.notes(board))]
    return panel("ranking", "Ranking", *parts, *notes, _definitions(board))


def baseline(contents: Contents) -> Markup:
    """The name of the baseline, which follows the reader's choice; with a dagger where it is not ranked."""
    return tag("bdi", baseline_text(contents.board), class_="baseline-name")


def speedup(contents: Contents, number: int, implementation: str) -> Markup:
    """A speed-up over the baseline that the reader picks; number is that of the slice."""
    standing = contents.slices[number].standing(implementation)
    if standing is None:
        return Markup("-")
    who = contents.cells.implementations.index(implementation)
    return tag("span", plus_minus(standing.sped_up, 2, "×"), class_="speedup", data_slice=number, data_impl=who)


def _whole(contents: Contents, operator: str) -> Markup:
    standings = contents.board.standings(operator)
    listed = [standing for standing in standings if standing.score is not None or standing.open_cases]
    rows = [_row(contents, standing) for standing in listed]
    untimed = [name(standing.implementation) for standing in standings if standing not in listed]
    family, over = tag("span", "family", class_="family"), join(["over ", baseline(contents)])
    header = ["rank", "implementation", family, "score", _scale(), "coverage", over, "alone first", "tied first", "cannot tell"]
    shown = table(header, rows, left=(1, 2), label=f"ranking of {short(operator)}", class_="ranking", data_sort="")
    rest = tag("p", "Without a timed pass: ", join(untimed, ", "), ".", class_="note") if untimed else EMPTY
    return join([shown, rest])


FULL, BEYOND = 200, 110
"""Width of the plot of scores in pixels, and the score at its end."""
QUARTERS = {at: FULL * at / BEYOND for at in (25, 50, 75, 100)}


def _scale() -> Markup:
    ticks = (text(x, 10, str(score), text_anchor="middle", fill=MUTED) for score, x in QUARTERS.items())
    return tag("svg", *ticks, viewBox=f"0 0 {FULL} 14", class_="dots", font_size=11, aria_hidden="true")


def _dot(style: Style, scored: Estimate | None) -> Markup:
    if scored is None:
        return EMPTY
    rules = (line(x, 0, x, 14, RULE) for x in QUARTERS.values())
    ends = (scored.low, scored.high) if scored.is_known else (scored.value, scored.value)
    low, high, x = (FULL * min(score, BEYOND) / BEYOND for score in (*ends, scored.value))
    shown = [*rules, line(low, 7, high, 7, style.colour, stroke_width=5, opacity=0.45), sign(x, 7, style)]
    return tag("svg", *shown, viewBox=f"0 0 {FULL} 14", class_="dots", aria_hidden="true")


def _unknown(board: Board, standing: Standing) -> int:
    cells = (case.cells.get(standing.implementation) for case in scored_of(board, standing.operator))
    return sum(cell is not None and cell.rank == 1 and cell.mark == "?" for cell in cells)


def _row(contents: Contents, standing: Standing) -> list[Markup]:
    whole = contents.slices_of(standing.operator)[0]
    dagger = "†" if standing.failed_hard else ""
    return [
        tag("td", standing.rank or dagger or (OPEN if standing.open_cases else "-")),
        row_head(key(contents.cells.looks, standing.implementation), name(standing.implementation), dagger),
        tag("td", name(standing.family), class_="label family"),
        tag("td", plus_minus(standing.scored, 1)),
        tag("td", _dot(contents.cells.looks.of(standing.implementation), standing.scored), class_="dot"),
        tag("td", f"{standing.passed}/{standing.timed}"),
        tag("td", speedup(contents, whole, standing.implementation)),
        tag("td", standing.wins),
        tag("td", standing.ties),
        tag("td", _unknown(contents.board, standing)),
    ]


def _unranked(board: Board, operator: str) -> Markup:
    """Who is not ranked, or not everywhere, why, and in which cases."""
    notes = []
    for own in board.standings(operator):
        found = ("† ", why_marked, own.failed_hard), (f"{OPEN}: ", why_open, own.open_cases)
        for mark, why, cases in found:
            if cases:
                head = tag("summary", mark, name(own.implementation), f" {why(board, own)}")
                ids = join((tag("code", case) for case in cases), ", ")
                notes.append(tag("details", head, ids, class_="small"))
    return join(notes)


def _parts(contents: Contents, operator: str) -> Markup:
    numbers = contents.slices_of(operator)
    if len(numbers) < 2:
        return EMPTY
    parts = [contents.slices[number] for number in numbers]
    header = ["implementation", *(join([part.title, tag("small", plural(len(part.cases), "case"))]) for part in parts)]
    rows = [
        [row_head(name(standing.implementation)), *(_part(contents, number, standing.implementation) for number in numbers)]
        for standing in contents.board.standings(operator)
        if standing.score is not None
    ]
    label = f"{short(operator)}: score and speed-up by dtype and regime"
    said = "Score by dtype and regime, the highest in bold, below it the speed-up over "
    title = tag("h3", said, baseline(contents), class_="minor")
    return join([title, table(header, rows, label=label, class_="parts")])


def _part(contents: Contents, number: int, implementation: str) -> Markup:
    own = contents.slices[number].standing(implementation)
    if own is None or own.scored is None:
        return tag("td", "-")
    first = "first" if own.rank == 1 else None
    below = tag("small", speedup(contents, number, implementation))
    return tag("td", figure(own.scored, 1), below, class_=first, title=plus_minus(own.scored, 1))


def _definitions(board: Board) -> Markup:
    present = {regime(case) for case in board.timed}
    words = [f"{kind.name}: {kind.definition}" for kind in REGIMES if kind in present]
    return tag("p", f"Regimes. {'; '.join(words)}.", class_="note") if len(words) > 1 else EMPTY
