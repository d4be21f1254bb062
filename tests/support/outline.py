"""A page as a tree, as far as the tests look at it."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "input", "wbr", "br"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def __iter__(self):
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def classes(self):
        return set(self.attributes.get("class", "").split())

    def all(self, *names, of=""):
        return [e for e in self if e.name in names and (not of or of in e.classes)]

    def find(self, key):
        (found,) = [e for e in self if e.attributes.get("id") == key]
        return found

    def rows(self):
        body = self.all("tbody")[0]
        return [[cell.text for cell in row.all("td", "th")] for row in body.all("tr")]


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = [Element("document")]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop().name == tag

    def handle_data(self, data):
        self.open[-1].children.append(data)


def outline(page):
    reader = _Reader()
    reader.feed(page)
    reader.close()
    (root,) = reader.open
    return root


def unpacked(page, key):
    return gzip.decompress(base64.b64decode(page.find(key).text)).decode()


def data_of(page):
    return json.loads(unpacked(page, "data"))


def reaching(page):
    """Handlers, sources, and links that leave the page."""
    every = [(element.name, *pair) for element in page for pair in element.attributes.items()]
    return [
        f"{name} {key}={value}"
        for name, key, value in every
        if key.startswith("on") or key in ("src", "srcdoc", "action") or (key == "href" and not value.startswith("#"))
    ]


def panels(page):
    return [e.attributes["id"] for e in page.find("main").children if isinstance(e, Element) and e.name != "header"]
