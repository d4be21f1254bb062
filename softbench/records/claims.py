"""What a paper or a release note states about kernels, read from a YAML file and checked; docs/claims.md has its form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from softbench.resources import bundled_published, choose_from, listed, shown
from softbench.texts import printable
from softbench.typed.places import Place, compose

FIGURES = {
    "ratio": "{:.2f}x",
    "percent_of_roof": "{:.1f} %",
    "traffic": "{:.2f}x",
    "latency_ms": "{:.4f} ms",
    "call_us": "{:.1f} us",
}
"""The measures that are numbers, and how one is written. `ratio` is how many times as long `than` takes as `who`, and `traffic`
the time over that of moving every row `streams` times at the rate of the roof."""
STATUSES = ("right", "wrong")
"""The measures that are none: every element is right; or it is not, and the reason has one of `words`."""
CLOCKS = ("graph", "call", "device", "cold", "wall")
MOST_CLAIMS = 1000
_HEAD = ("title", "source", "gpu", "what")
_KEYS = ("statement", "measure", "who", "than", "where", "least", "most", "streams", "words", "over", "clock")


@dataclass(frozen=True)
class Claim:
    """One statement: holds where any of `who` meets the bounds in every case of `where`, or in their geometric mean.

    where   patterns of case ids, each of which must match; * stands for any text; by default the cases of the figures
    least, most  bounds of the measure, in the unit of `FIGURES`
    clock   "" is the one that ranks
    """

    statement: str
    measure: str
    who: tuple[str, ...]
    where: tuple[str, ...]
    than: str = ""
    least: float | None = None
    most: float | None = None
    streams: float = 0.0
    words: tuple[str, ...] = ()
    is_mean: bool = False
    clock: str = ""


@dataclass(frozen=True)
class ClaimFile:
    """The claims of one source, and its own figures as it writes them: by case id, then by implementation."""

    name: str
    title: str
    source: str
    gpu: str
    what: str
    claims: tuple[Claim, ...]
    figures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read(path: Path) -> ClaimFile:
    """A file of claims. Raises InputError with file, line, key and what is accepted there."""
    root = compose(path, "claims")
    keys = root.mapping((*_HEAD, "figures", "claims"), (*_HEAD, "claims"))
    items = keys["claims"].items()
    if len(items) > MOST_CLAIMS:
        raise keys["claims"].error(f"has {len(items)} claims; {MOST_CLAIMS} are the most")
    figures = {
        printable(case): {printable(who): _scalar(p) for who, p in own.mapping().items()}
        for case, own in (keys["figures"].mapping() if "figures" in keys else {}).items()
    }
    title, source, gpu, what = (_text(keys[name]) for name in _HEAD)
    stated = tuple(_claim(item, tuple(figures)) for item in items)
    return ClaimFile(shown(path), title, source, gpu, what, stated, figures)


def bundled() -> tuple[ClaimFile, ...]:
    """Those that come with softbench, if any. Raises as `read` does."""
    try:
        return tuple(map(read, listed(bundled_published(), "*.yaml")))
    except FileNotFoundError:
        return ()


def _claim(place: Place, cases: tuple[str, ...]) -> Claim:
    keys = place.mapping(_KEYS, ("statement", "measure", "who", *["where"] * (not cases)))
    claim = Claim(
        _text(keys["statement"]),
        _one_of(keys["measure"], (*FIGURES, *STATUSES)),
        _texts(keys["who"]),
        _texts(keys["where"]) if "where" in keys else cases,
        than=_text(keys["than"]) if "than" in keys else "",
        least=_number(keys, "least"),
        most=_number(keys, "most"),
        streams=_number(keys, "streams") or 0.0,
        words=_texts(keys["words"]) if "words" in keys else (),
        is_mean="over" in keys and _one_of(keys["over"], ("each", "mean")) == "mean",
        clock=_one_of(keys["clock"], CLOCKS) if "clock" in keys else "",
    )
    if why := _fault(claim):
        raise keys["measure"].error(why)
    return claim


def _fault(claim: Claim) -> str:
    is_bounded = claim.least is not None or claim.most is not None
    needed = {"ratio": ("than", claim.than), "traffic": ("streams", claim.streams), "wrong": ("words", claim.words)}
    for measure, (name, value) in needed.items():
        if bool(value) != (claim.measure == measure):
            return f"{name} goes with {measure!r}, and only with it"
    if is_bounded != (claim.measure in FIGURES):
        return f"{claim.measure!r} takes no least and most" if is_bounded else "needs least, most or both"
    if claim.least is not None and claim.most is not None and claim.least > claim.most:
        return f"no figure is at least {claim.least:g} and at most {claim.most:g}"
    if claim.is_mean and claim.measure in STATUSES:
        return f"{claim.measure!r} has no mean"
    return ""


def _text(place: Place) -> str:
    return printable(place.text())


def _texts(place: Place) -> tuple[str, ...]:
    return tuple(map(_text, place.one_or_more()))


def _scalar(place: Place) -> str:
    if place.node.id != "scalar":
        raise place.error("expected a figure as its source writes it")
    return printable(" ".join(place.node.value.split()))


def _number(keys: Mapping[str, Place], name: str) -> float | None:
    if name not in keys:
        return None
    value = float(keys[name].number())
    if value <= 0:
        raise keys[name].error("expected a number above 0")
    return value


def _one_of(place: Place, choices: tuple[str, ...]) -> str:
    text = place.text()
    if text not in choices:
        raise place.error(f"{text!r:.40} is not accepted; {choose_from(text, choices)}")
    return text
