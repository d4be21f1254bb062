"""The page's terms: the first use of each leads to its meaning, at the foot of the page. `words.md` holds them."""

import re
from importlib import resources

from softbench.render.report.html import EMPTY, Markup, join, tag

_APART = {"a", "button", "code", "h1", "h2", "h3", "label", "legend", "option", "summary", "svg", "th"}
"""Elements in which nothing is linked: they are headings, names, or can be pressed already."""


def words() -> dict[str, str]:
    """Term -> meaning."""
    text = (resources.files("softbench.render.report") / "words.md").read_text(encoding="utf-8")
    rows = (line.split("|")[1:3] for line in text.splitlines() if line.startswith("| "))
    return {word.strip(): meaning.strip() for word, meaning in list(rows)[1:]}


def explained(content: Markup) -> tuple[Markup, Markup]:
    """HTML whose first use of each term is a link, and a list of the meanings of those terms."""
    meanings, apart, parts = words(), 0, []
    left = dict(meanings)
    for part in re.split(r"(<[^>]*>)", content):
        if name := re.match(r"</?(\w+)", part):
            apart += (1 - 2 * part.startswith("</")) * (name[1] in _APART)
        parts.append(part if apart or part.startswith("<") else _linked(part, left))
    used = [(tag("dt", word, id=_id(word)), tag("dd", meaning)) for word, meaning in meanings.items() if word not in left]
    foot = tag("footer", tag("h2", "Words"), tag("dl", *map(join, used)), class_="words") if used else EMPTY
    return Markup("".join(parts)), foot


def _linked(part: str, left: dict[str, str]) -> str:
    """Text with a link for each term that it is the first to use; those are taken out of what is left."""
    found = re.search(rf"(?i)(?<![\w-])({'|'.join(left)})s?(?![\w-])", part) if left else None
    if found is None:
        return part
    word = next(word for word in left if word.lower() == found[1].lower())
    link = tag("a", Markup(found[0]), href=f"#{_id(word)}", title=left.pop(word), class_="term")
    return part[: found.start()] + link + _linked(part[found.end() :], left)


def _id(word: str) -> str:
    return f"word-{word.replace(' ', '-')}"
