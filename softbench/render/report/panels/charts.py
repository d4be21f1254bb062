"""The panels that hold one figure and nothing else."""

from collections.abc import Callable

from softbench.render.report.contents import Contents
from softbench.render.report.html import EMPTY, Markup, panel
from softbench.render.report.panels.blocks import figure as figure_of

LEADS = {
    "ratio": "Lower is faster; 1× is the time of the roof kernel. Above the dotted rule the scale is coarser. Lines join the "
    "tallest matrix of every width that is a power of two, or of every width. A point opens its cell.",
    "errors": "Errors of the output that was checked, each in units of the bound on its element: 1 would be wrong. Low and left "
    "is better. A cell's details have the 99th percentile and the mean with its sign.",
    "peers": "Dotted: published by others on their GPU. Each is % of the theoretical peak of its own machine: memory clock × 2 × "
    "bus width / 8, for published GPUs by NVIDIA's data sheets.",
    "drift": "Placements in the order of the run, on one GPU at a time. The roof is one kernel per case, drawn by its distance "
    "from its median there: what moves it is the machine, or the place of its buffers.",
}
"""By the key of the figure: what it shows."""


def chart(*keys: str) -> Callable[[Contents], Markup]:
    """The panel of a figure, or of several that belong together; nothing where none has points."""

    def make(contents: Contents) -> Markup:
        found = [figure for key in keys if (figure := contents.figures.get(key))]
        if not found:
            return EMPTY
        cells = contents.cells
        drawn = [figure_of(one, cells.looks, cells.implementations) for one in found]
        return panel(keys[0], found[0].title, *drawn, lead=LEADS[keys[0]])

    return make
