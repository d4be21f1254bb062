"""`softbench figure` and `softbench badge`: pictures of a run for a paper, as SVG or PNG, and for a README, as SVG."""

from collections.abc import Sequence
from pathlib import Path

from softbench.analysis import leaderboard
from softbench.cli.command import ONE_RUN, REPORTS, Command, CommandResult, Options, argument, read, write
from softbench.cli.pictures import png
from softbench.records import claims
from softbench.render.report import tinted
from softbench.render.report.badge import badge
from softbench.render.report.contents import Cells, origin
from softbench.render.report.drawing import svg, tiles
from softbench.render.report.figure import Figure, FigureView
from softbench.render.report.figures import figures
from softbench.render.report.grid import Grid, GridView
from softbench.resources import choose_from
from softbench.texts import InputError

KINDS = (".svg", ".png")
NAMES = ("ratio", "shapes", "heatmap", "clocks", "errors", "peers", "drift")
"""Keys of the figures, in the order of the page."""


def _figure(options: Options) -> CommandResult:
    kind = Path(options.output).suffix.lower()
    if kind not in KINDS:
        raise InputError(f"--output: {options.output!r:.80} ends in neither {' nor '.join(KINDS)}")
    board = leaderboard.build(read(options, options.run))
    cells = Cells(board)
    heat = tinted.grid(board)
    by_key: dict[str, Figure | Grid] = {heat.key: heat} if heat.views else {}
    by_key |= {figure.key: figure for figure in figures(board, cells, claims.bundled())}
    if not by_key:
        raise InputError(f"{board.passport.run_id} has no figure: it holds no cells")
    if options.name not in by_key:
        raise InputError(f"{board.passport.run_id} has no figure {options.name!r:.60}; {choose_from(options.name, by_key)}")
    figure = by_key[options.name]
    at, looks, whence = _view(figure, options.view), cells.looks, origin(board.passport)
    if isinstance(figure, Grid):
        drawing = tiles.svg(figure, figure.views[at], looks, whence)
    else:
        drawing = svg(figure, figure.views[at], looks, whence)
    write(Path(options.output), png(drawing) if kind == ".png" else drawing)
    views: Sequence[FigureView | GridView] = figure.views
    labels = "".join(f"  --view {number}  {view.label}\n" for number, view in enumerate(views, start=1))
    return f"written: {options.output}\n" + (f"views of {figure.key}:\n{labels}" if len(views) > 1 else ""), 0


def _view(figure: Figure | Grid, wanted: str) -> int:
    if not (wanted.isascii() and wanted.isdecimal() and len(wanted) < 6 and 0 < int(wanted) <= len(figure.views)):
        raise InputError(f"--view: {wanted!r:.60} is none of {figure.key}; give 1 to {len(figure.views)}")
    return int(wanted) - 1


def _badge(options: Options) -> CommandResult:
    board = leaderboard.build(read(options, options.run))
    write(Path(options.output), badge(board, options.implementation))
    return f"written: {options.output}\n", 0


FIGURE = Command(
    "figure",
    "write one of the page's figures as SVG or PNG",
    (
        ("softbench figure RUN ratio --output ratio.svg", "for a paper; its other views are listed"),
        ("softbench figure RUN heatmap --view 2 --output heatmap.svg", "in another measure, or its next page"),
        ("softbench figure RUN clocks --view 2 --output clocks.png", "another view, as PNG"),
    ),
    (
        ONE_RUN,
        argument("name", metavar="NAME", help=f"{', '.join(NAMES[:-1])} or {NAMES[-1]}"),
        argument(
            "--output", metavar="FILE", required=True, help="where it goes: NAME.svg, or NAME.png where rsvg-convert or Chromium is"
        ),
        argument("--view", metavar="N", default="1", help="which of its views, as the page offers them (default: 1)"),
        REPORTS,
    ),
    _figure,
)
BADGE = Command(
    "badge",
    "write a run's score as a badge for a README",
    (("softbench badge RUN --output badge.svg", "who leads, and with which score"),),
    (
        ONE_RUN,
        argument("--output", metavar="FILE", required=True, help="where the SVG goes"),
        argument("--implementation", metavar="NAME", default="", help="whose score (default: the first leader's)"),
        REPORTS,
    ),
    _badge,
)
