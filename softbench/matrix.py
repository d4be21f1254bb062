"""Read shapes.yaml: check it, expand its axes into cases, and select among them.

The form of the file is described at its top. Every mistake in it is one `ShapesError` of one line that names the file,
the line, the key and what is accepted there.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softbench.model import DTYPES, MAX_DIMENSIONS, MAX_ELEMENTS, Case
from softbench.operators.words import DISTRIBUTIONS, OPERATORS, check_case, check_layout
from softbench.resources import choose_from, read_utf8, shown
from softbench.texts import InputError

MAX_CASES = 10_000
MAX_DEPTH = 20
GROUP_KEYS = ("operator", "dtype", "out_dtype", "shapes", "rows", "columns", "layout", "distribution", "why")
SELECTABLE = ("operator", "dtype", "rows", "columns", "layout", "distribution")


class ShapesError(InputError):
    """A mistake in a shapes file, a profile that it does not have, or a text that selects nothing it knows."""


@dataclass(frozen=True)
class Matrix:
    """A shapes file: `profiles` maps names to descriptions, in the order of the file; in those of `ladders` rungs take part."""

    path: Path
    profiles: Mapping[str, str]
    cases: Mapping[str, tuple[Case, ...]]
    ladders: frozenset[str] = frozenset()

    def profile(self, name: str) -> tuple[Case, ...]:
        """The cases of one profile, their ids unique, in the order of the file; ShapesError for an unknown name."""
        if name not in self.cases:
            raise ShapesError(f"{shown(self.path)}: no profile {name!r}; {choose_from(name, self.profiles)}")
        return self.cases[name]


def load(path: Path) -> Matrix:
    """Read and check a whole shapes file; raises ShapesError at the first mistake."""
    root = _compose(path).mapping(known=("profiles",), required=("profiles",))
    profiles: dict[str, str] = {}
    cases: dict[str, tuple[Case, ...]] = {}
    ladders: set[str] = set()
    for name, place in root["profiles"].mapping().items():
        if not re.fullmatch(r"[A-Za-z][\w-]*", name):
            raise place.error(f"{name!r} is not a name; use a letter, then letters, digits, _ and -")
        fields = place.mapping(known=("description", "timed", "ladders", "groups"), required=("description", "groups"))
        profiles[name] = fields["description"].text()
        timed = fields["timed"].flag() if "timed" in fields else True
        if "ladders" in fields and fields["ladders"].flag():
            ladders.add(name)
        cases[name] = _profile(fields["groups"].items(), timed)
    return Matrix(path, profiles, cases, frozenset(ladders))


@dataclass(frozen=True)
class _Place:
    """A node of the file that knows how to be found: file, dotted key, line."""

    file: str
    key: str
    node: Any

    @property
    def line(self) -> int:
        return int(self.node.start_mark.line) + 1

    def error(self, text: str) -> ShapesError:
        key = f"{self.key}: " if self.key else ""
        return ShapesError(f"{self.file}:{self.line}: {key}{' '.join(text.split())}")

    def mapping(self, known: Sequence[str] = (), required: Sequence[str] = ()) -> dict[str, _Place]:
        """The values by key; where `known` is given no other key may stand there."""
        if self.node.id != "mapping" or not self.node.value:
            wanted = f"the keys {', '.join(known)}" if known else "names with a mapping each"
            raise self.error(f"expected a mapping: {wanted}")
        fields: dict[str, _Place] = {}
        for key, value in self.node.value:
            at = _Place(self.file, self.key, key)
            if key.id != "scalar":
                raise at.error("a key must be a word")
            if known and key.value not in known:
                raise at.error(f"unknown key {key.value!r}; {choose_from(key.value, known)}")
            if key.value in fields:
                raise at.error(f"key {key.value!r} stands twice, first in line {fields[key.value].line}")
            fields[key.value] = _Place(self.file, f"{self.key}.{key.value}".lstrip("."), value)
        for name in required:
            if name not in fields:
                raise self.error(f"the key {name!r} is missing")
        return fields

    def items(self) -> tuple[_Place, ...]:
        """The elements of a list that must not be empty."""
        if self.node.id != "sequence" or not self.node.value:
            raise self.error("expected a list that is not empty")
        return tuple(_Place(self.file, f"{self.key}[{i}]", node) for i, node in enumerate(self.node.value))

    def one_or_more(self) -> tuple[_Place, ...]:
        """The elements of a list that must not be empty, or the one scalar that stands in its place."""
        return (self,) if self.node.id == "scalar" else self.items()

    def text(self) -> str:
        if self.node.id != "scalar" or not self.node.tag.endswith(":str") or not self.node.value.strip():
            raise self.error("expected a text")
        return " ".join(self.node.value.split())

    def flag(self) -> bool:
        if self.node.id != "scalar" or self.node.value not in ("true", "false"):
            raise self.error("expected true or false")
        return bool(self.node.value == "true")

    def size(self) -> int:
        # Our own rule for numbers: YAML 1.1 reads 010 as 8 and 1:30 as 90.
        if self.node.id != "scalar" or not re.fullmatch(r"0|[1-9][0-9]{0,17}", self.node.value):
            what = repr(self.node.value) if self.node.id == "scalar" else f"a {self.node.id}"
            raise self.error(f"{what} is not a size; use a whole number in digits, 0 or more")
        return int(self.node.value)

    def shape(self) -> tuple[int, ...]:
        if self.node.id != "sequence":
            raise self.error("expected a shape, a list of sizes such as [4096, 1024]; [] is a scalar")
        sizes = tuple(_Place(self.file, self.key, node).size() for node in self.node.value)
        if len(sizes) > MAX_DIMENSIONS:
            raise self.error(f"has {len(sizes)} dimensions; {MAX_DIMENSIONS} are the most")
        return sizes

    def words(self, check: Callable[[str], None]) -> tuple[str, ...]:
        for place in self.one_or_more():
            if place.node.id != "scalar":
                raise place.error("expected a word")
            try:
                check(place.node.value)
            except ValueError as mistake:
                raise _Place(self.file, self.key, place.node).error(str(mistake)) from None
        return tuple(place.node.value for place in self.one_or_more())


def _compose(path: Path) -> _Place:
    import yaml

    text = read_utf8(path, ShapesError)
    name = shown(path)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_bombs(name, yaml.parse(text, Loader=loader))
        root = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as mistake:
        mark, problem = getattr(mistake, "problem_mark", None), getattr(mistake, "problem", None)
        line = f":{mark.line + 1}" if mark else ""
        raise ShapesError(f"{name}{line}: not valid YAML: {' '.join(str(problem or mistake).split())}") from None
    if root is None:
        raise ShapesError(f"{name}:1: the file is empty; it needs the key 'profiles'")
    return _Place(name, "", root)


def _refuse_bombs(name: str, events: Iterable[Any]) -> None:
    """Refuse aliases, which multiply what they name, and deep nesting, on which the C loader overflows the stack."""
    depth = 0
    for event in events:
        kind, line = type(event).__name__, event.start_mark.line + 1
        if getattr(event, "anchor", None) is not None:
            raise ShapesError(f"{name}:{line}: anchors and aliases are not accepted; write the value out")
        depth += kind.endswith(("SequenceStartEvent", "MappingStartEvent"))
        depth -= kind.endswith(("SequenceEndEvent", "MappingEndEvent"))
        if depth > MAX_DEPTH:
            raise ShapesError(f"{name}:{line}: nested more than {MAX_DEPTH} deep")


def _profile(groups: Iterable[_Place], timed: bool) -> tuple[Case, ...]:
    cases: list[Case] = []
    places: dict[str, _Place] = {}
    for group in groups:
        axes = _axes(group, timed)
        if len(cases) + math.prod(map(len, axes)) > MAX_CASES:
            raise group.error(f"the profile has more than {MAX_CASES} cases; split it")
        for operator, dtype, out_dtype, shape, layout, distribution in itertools.product(*axes):
            case = Case(operator, shape, dtype, out_dtype or dtype, layout, distribution, timed)
            try:
                check_case(case)
            except ValueError as mistake:
                raise group.error(str(mistake)) from None
            if case.id in places:
                first = places[case.id]
                raise group.error(f"case {case.id!r} stands twice, first in {first.key} (line {first.line})")
            places[case.id] = group
            cases.append(case)
    return tuple(cases)


def _axes(group: _Place, timed: bool) -> tuple[Sequence[Any], ...]:
    """The axes of a group, slowest first: operator, dtype, out_dtype ("" is the dtype), shape, layout, distribution."""
    fields = group.mapping(known=GROUP_KEYS, required=("operator", "dtype"))
    checks = _checks()

    def words(key: str, default: str = "") -> tuple[str, ...]:
        return fields[key].words(checks[key]) if key in fields else (default,)

    if "why" in fields:
        fields["why"].text()
    axes = (
        words("operator"),
        words("dtype"),
        words("out_dtype"),
        _shapes(group, fields, timed),
        words("layout", "contiguous"),
        words("distribution", "normal"),
    )
    if timed and axes[-1] != ("normal",):
        raise fields["distribution"].error("a timed profile measures 'normal' only; move it to one with timed: false")
    return axes


def _shapes(group: _Place, fields: Mapping[str, _Place], timed: bool) -> tuple[tuple[int, ...], ...]:
    """The shapes of a group, as listed or as rows x columns with the columns moving fastest."""
    given = {key for key in ("shapes", "rows", "columns") if key in fields}
    if given == {"shapes"}:
        places = fields["shapes"].items()
        shapes = tuple(place.shape() for place in places)
    elif given == {"rows", "columns"}:
        rows, columns = (fields[key].one_or_more() for key in ("rows", "columns"))
        if len(rows) * len(columns) > MAX_CASES:
            raise group.error(f"the profile has more than {MAX_CASES} cases; split it")
        places = tuple(place for place in rows for _ in columns)
        shapes = tuple((row.size(), column.size()) for row in rows for column in columns)
    else:
        raise group.error("give the sizes either as shapes, or as rows and columns")
    for place, shape in zip(places, shapes, strict=True):
        if math.prod(size or 1 for size in shape) > MAX_ELEMENTS:
            raise place.error("a shape of more than 2^48 elements fits no memory")
        if timed and math.prod(shape) == 0:
            raise place.error("a shape without elements cannot be timed; move it to a profile with timed: false")
    return shapes


def _one_of(what: str, choices: Iterable[str]) -> Callable[[str], None]:
    def check(word: str) -> None:
        if word not in choices:
            raise ValueError(f"{word!r} is not {what}; choose from {', '.join(choices)}")

    return check


def _checks() -> dict[str, Callable[[str], None]]:
    """Key of the file or option -> what raises ValueError for a word that does not belong there."""
    return {
        "operator": _one_of("an operator", OPERATORS),
        "dtype": _one_of("a dtype", DTYPES),
        "out_dtype": _one_of("a dtype", DTYPES),
        "layout": check_layout,
        "distribution": _one_of("a distribution", DISTRIBUTIONS),
    }


def select(cases: Iterable[Case], **options: str | None) -> tuple[Case, ...]:
    """The cases that every given option admits, in their order; there may be none.

    Options are named as in `SELECTABLE` and hold the text of ``--softbench-NAME``: words ("float16,float32") or, for
    rows and columns, sizes and inclusive ranges ("1024-8192,50257"). None admits everything. Raises ShapesError that
    names the option and its text.
    """
    chosen = tuple(cases)
    for name, text in options.items():
        if name not in SELECTABLE:
            raise TypeError(f"no axis {name!r}; {choose_from(name, SELECTABLE)}")
        if text is not None:
            admits = _sizes(name, text) if name in ("rows", "columns") else _words(name, text)
            chosen = tuple(case for case in chosen if admits(getattr(case, name)))
    return chosen


def _sizes(name: str, text: str) -> Callable[[int], bool]:
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,18})(?:-([0-9]{1,18}))?\s*", part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if low > high:
            example = "a size, or a range from low to high, such as 1024-8192,50257"
            raise ShapesError(f"--softbench-{name}={text:.60}: {part.strip()!r:.60} is not {example}")
        ranges.append((low, high))
    return lambda size: any(low <= size <= high for low, high in ranges)


def _words(name: str, text: str) -> Callable[[str], bool]:
    words = {part.strip() for part in text.split(",")}
    for word in sorted(words):
        try:
            _checks()[name](word)
        except ValueError as mistake:
            raise ShapesError(f"--softbench-{name}={text:.60}: {mistake}") from None
    return lambda word: word in words
