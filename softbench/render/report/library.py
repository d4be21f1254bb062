"""plotly.js as far as a page needs it. plotly's package has all of it alone, of which charts of lines and points are a fifth.

The bundle is a row of modules as esbuild writes them, `var NAME=W(...)`, each run by `NAME()` when another first needs it; the
last one registers the kinds of charts. Without these, what no other calls is left out. A bundle of another form stays whole.
"""

import re
from functools import lru_cache

_MODULE = re.compile(r"var [\w$]+=W\(")
_NAMES = re.compile(r"(?<![\w$])([\w$]+)=(?:W|Ea)\(")
"""Of modules of both kinds: a piece of the bundle from one `W` to the next may hold some of the other kind."""
_CALL = re.compile(r"(?<![\w$.])([\w$]{2,})\(\)")
_CHARTS = re.compile(r"(?<=\.register\()\[(?:[\w$]+\(\),?)+\](?=\))")


@lru_cache(maxsize=1)
def plotly() -> str:
    """The text of the library: lines and points need no chart that its core does not have."""
    from plotly.offline import get_plotlyjs

    return needed(str(get_plotlyjs()))


def needed(bundle: str) -> str:
    """The modules that the core reaches, in their order."""
    text, lists = _CHARTS.subn("[]", bundle)
    starts = [found.start() for found in _MODULE.finditer(text)]
    if lists != 1 or not starts:
        return bundle
    pieces = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    where = {name: at for at, piece in enumerate(pieces) for name in _NAMES.findall(piece)}
    kept: set[int] = set()
    waiting = [len(pieces) - 1]
    while waiting:
        at = waiting.pop()
        if at not in kept:
            kept.add(at)
            waiting += [where[name] for name in set(_CALL.findall(pieces[at])) if name in where]
    return text[: starts[0]] + "".join(pieces[at] for at in sorted(kept))
