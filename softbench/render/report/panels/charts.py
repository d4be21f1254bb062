"""The figures that stand alone."""

from __future__ import annotations

from softbench.render.report.contents import Contents
from softbench.render.report.html import Markup, panel, tag
from softbench.render.report.panels.blocks import figure

BANDWIDTH = (
    "Lines join the tallest large matrix of every power-of-two width; all other shapes are loose points. "
    "A point opens its cell."
)
ARITHMETIC = (
    "For one width (head dimension) at a time. Where the roof rises memory is the limit, where it is "
    "level the tensor cores are. A point opens its cell."
)
LATENCY = "For one width at a time, where it was timed with several numbers of rows."
PROFILE = (
    "Higher and further left is better: at 1.05x, the share of cases in which an implementation loses at most 5 % "
    "to the fastest there. A case without a pass is never within reach."
)
PEERS = (
    "Dotted: published by others on their GPU. Each is % of the theoretical peak of its own machine: memory clock x 2 x "
    "bus width / 8, for published GPUs by NVIDIA's data sheets."
)
DRIFT = (
    "Placements in the order of the run, on one GPU at a time. The roof is one kernel a case, drawn by what it is off its "
    "median there: what moves it is the machine, or where its buffers lie."
)


def bandwidth(contents: Contents) -> Markup:
    return _alone(contents, "bandwidth", BANDWIDTH)


def arithmetic(contents: Contents) -> Markup:
    return _alone(contents, "arithmetic", ARITHMETIC)


def latency(contents: Contents) -> Markup:
    return _alone(contents, "latency", LATENCY)


def profile(contents: Contents) -> Markup:
    return _alone(contents, "profile", PROFILE)


def peers(contents: Contents) -> Markup:
    return _alone(contents, "peers", PEERS)


def drift(contents: Contents) -> Markup:
    return _alone(contents, "drift", DRIFT)


def _alone(contents: Contents, key: str, lead: str) -> Markup:
    """A panel with one figure. Without a script there is nothing to see in it, and it says so."""
    made = contents.figures.get(key)
    if made is None:
        return Markup("")
    plain = tag("p", "Drawn by a script; its figures stand in the tables.", class_="without-script note")
    return panel(key, made.title, figure(made), plain, lead=lead)
