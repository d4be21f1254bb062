"""Where each implementation loses to the fastest, by how much, and why, as far as the records say."""

from collections.abc import Callable, Sequence

from softbench.analysis.leaderboard.estimates import mean, plus_minus
from softbench.analysis.leaderboard.formatting import dtype_text, plural, short
from softbench.analysis.leaderboard.in_common import is_whole
from softbench.analysis.leaderboard.losses import Loss, losses
from softbench.analysis.leaderboard.regimes import regime
from softbench.render.report.contents import Contents
from softbench.render.report.html import Markup, join, name, panel, row_head, table, tag

SHOWN = 12
LEAD = (
    "Cases that another wins, the largest loss beyond doubt first. Why: how the two kernels differ in what was counted, and no "
    "guess; --softbench-registers and --softbench-traffic count more. Focus in the toolbar opens one."
)
GROUPS: tuple[Callable[[Loss], str], ...] = (
    lambda loss: f"{short(loss.rival)} fastest",
    lambda loss: dtype_text(loss.case.case.dtype, loss.case.case.out_dtype),
    lambda loss: regime(loss.case).name,
    lambda loss: "whole 16-byte vectors" if is_whole(loss.case.case) else "rows of no whole vectors",
)


def lost(contents: Contents) -> Markup:
    parts = []
    for operator in contents.board.operators:
        for standing in contents.board.standings(operator):
            found = losses(contents.board, operator, standing.implementation)
            if found:
                who = name(standing.implementation)
                said = (
                    f" loses in {len(found)} of {plural(standing.passed, 'case')}, on average by {_mean(found)} the fastest's time"
                    + (
                        f", refuses or fails {standing.timed - standing.passed}"
                        if standing.passed < standing.timed
                        else ""
                    )
                )
                head = tag("summary", who, said, f" of {operator}" if len(contents.board.operators) > 1 else "")
                body = [head, tag("p", _groups(found), class_="note"), _table(contents, found)]
                parts.append(tag("details", *body, class_="small loss", data_of=standing.implementation))
    return panel("losses", "Where it loses", *parts, lead=LEAD)


def _groups(found: Sequence[Loss]) -> Markup:
    """By rival, dtype, regime and alignment, a line each: how many cases, and the mean loss."""
    said = []
    for group in GROUPS:
        own = {word: [loss for loss in found if group(loss) == word] for word in dict.fromkeys(map(group, found))}
        said.append(" · ".join(f"{word}: {len(part)} at {_mean(part)}" for word, part in own.items()))
    return join(said, Markup("<br>"))


def _mean(found: Sequence[Loss]) -> str:
    ratio = mean([loss.ratio for loss in found])
    return plus_minus(ratio, 2, "×") if ratio else "-"


def _table(contents: Contents, found: Sequence[Loss]) -> Markup:
    rows = [
        [
            row_head(tag("bdi", short(loss.case.case.id, 60))),
            tag("td", _mean([loss]), class_="label", data_cell=contents.cells.number(loss.cell)),
            tag("td", name(loss.rival), class_="label"),
            tag("td", "; ".join(loss.why) or "nothing that was counted differs", class_="text"),
        ]
        for loss in found[:SHOWN]
    ]
    header = ["case", "takes", "of the time of", "difference"]
    label = f"losses of {short(found[0].cell.record.variant.implementation)}"
    shown = table(header, rows, left=(0, 2, 3), label=label, data_grid="")
    more = f"The first {SHOWN} of {len(found)}; all are under ", tag("a", "Every cell", href="#cells"), "."
    return join([shown, tag("p", *more, class_="note")]) if len(found) > SHOWN else shown
