"""What is embedded in a page: style, script, plotly.js and data, packed to keep the page small.

A page has all style sheets and scripts of `assets/`, joined in the order given here.
"""

import base64
import gzip
import json
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from softbench.render.report.html import Markup, clean, tag
from softbench.render.report.library import plotly

STYLES = ("base.css", "tables.css", "dialog.css", "print.css")
SCRIPTS = (
    *("unpack.js", "stats.js", "format.js", "board.js", "state.js", "theme.js", "copy.js", "grid.js", "heatmap.js", "speedups.js"),
    *("samples.js", "details.js", "charts.js", "focus.js", "sort.js", "cells.js", "print.js", "pictures.js", "main.js"),
)
"""They share one scope, like one file; main.js runs last."""


def style() -> Markup:
    return Markup("\n".join(map(text, STYLES)))


def script(names: Sequence[str] = SCRIPTS, start: str = "") -> Markup:
    """The page's own script as one strict function, so that its names and plotly's do not collide; start is run last."""
    return Markup("(() => {\n'use strict';\n" + "\n".join(map(text, names)) + f"{start}}})();\n")


def text(name: str) -> str:
    return (resources.files("softbench.render.report") / "assets" / name).read_text(encoding="utf-8")


def data_element(value: Any) -> Markup:
    """Plain data, packed, in the element where the script looks for it. All texts in it are cleaned."""
    line = json.dumps(_cleaned(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return tag("script", pack(line), id="data", type="application/gzip")


@lru_cache(maxsize=1)
def plotly_element() -> Markup:
    return tag("script", pack(plotly()), id="library", type="application/gzip")


def pack(content: str) -> Markup:
    """gzip in base64, without a time, so that the same content gives the same text."""
    return Markup(base64.b64encode(gzip.compress(content.encode("utf-8"), 9, mtime=0)).decode("ascii"))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list | tuple) else value
