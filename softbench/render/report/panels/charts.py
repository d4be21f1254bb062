"""The panels that hold one figure and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from softbench.render.report.contents import Contents
from softbench.render.report.html import EMPTY, Markup, panel, tag
from softbench.render.report.panels.blocks import figure

LEADS = {
    "bandwidth": "Lines join the tallest large matrix of every power-of-two width; all other shapes are loose points. "
    "A point opens its cell.",
    "arithmetic": "For one width (head dimension) at a time. Where the roof rises memory is the limit, where it is "
    "level the tensor cores are. A point opens its cell.",
    "latency": "For one width at a time, where it was timed with several numbers of rows.",
    "profile": "Higher and further left is better: at 1.05x, the share of cases in which an implementation loses at most 5 % "
    "to the fastest there. A case without a pass is never within reach.",
    "peers": "Dotted: published by others on their GPU. Each is % of the theoretical peak of its own machine: memory clock x 2 x "
    "bus width / 8, for published GPUs by NVIDIA's data sheets.",
    "drift": "Placements in the order of the run, on one GPU at a time. The roof is one kernel per case, drawn by its distance "
    "from its median there: what moves it is the machine, or the place of its buffers.",
}
"""By the key of the figure: what it shows."""


def chart(key: str) -> Callable[[Contents], Markup]:
    """The panel of one figure. Without a script it says that there is nothing to see."""

    def make(contents: Contents) -> Markup:
        shown = contents.figures.get(key)
        if shown is None:
            return EMPTY
        plain = tag("p", "Drawn by a script; the tables have its figures.", class_="without-script note")
        return panel(key, shown.title, figure(shown), plain, lead=LEADS[key])

    return make
