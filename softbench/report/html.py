"""Building blocks of the page: escaped text, elements, tables."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any


class Markup(str):
    """Text that is HTML already; every other string is escaped when it enters an element."""


def esc(text: object) -> Markup:
    """Escaped text; characters that no HTML file may hold (lone surrogates, NUL) are replaced."""
    if isinstance(text, Markup):
        return text
    clean = str(text).encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return Markup(html.escape(clean))


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """An element. An attribute of None is left out; a trailing underscore in its name is dropped (class_)."""
    pairs = (f' {key.rstrip("_")}="{esc(value)}"' for key, value in attributes.items() if value is not None)
    return Markup(f"<{name}{''.join(pairs)}>{join(content)}</{name}>")


def join(parts: Iterable[object], separator: str = "") -> Markup:
    return Markup(separator.join(esc(part) for part in parts))


def table(
    header: Sequence[object], rows: Iterable[Iterable[Markup]], left: Sequence[int] = (0,), **attributes: object
) -> Markup:
    """A table in a frame that scrolls sideways by itself; rows hold finished cells, left names the columns of text."""
    names = (tag("th", text, scope="col", class_="label" if i in left else None) for i, text in enumerate(header))
    head = tag("thead", tag("tr", *names))
    body = tag("tbody", join((tag("tr", *row) for row in rows), "\n"))
    return tag("div", tag("table", head, body, **attributes), class_="frame")


def embedded_json(value: Any) -> Markup:
    """JSON for a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
