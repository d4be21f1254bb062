"""What the cases that an implementation fails have in common, and none that it passes: "widths that are no power of two"."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

from softbench.model import DTYPE_BYTES, Case, Scalar

MOST_ALTERNATIVES = 2
VECTOR_BYTES = 16

Property = tuple[str, Callable[[Case], bool]]


def only(failed: Sequence[Case], passed: Sequence[Case]) -> str:
    """What all of `failed` have and none of `passed` has, as "only float16"; "" if no one or two properties separate them.

    If several do, the two simplest are named, because these cases cannot tell which of them it is.
    """
    if not failed or not passed:
        return ""
    everybody = set(range(len(passed)))
    shared = [(text, holds) for text, holds in _properties(failed, passed) if all(map(holds, failed))]
    excluded = {text: {at for at, case in enumerate(passed) if not holds(case)} for text, holds in shared}
    found = [text for text, cases in excluded.items() if cases == everybody][:MOST_ALTERNATIVES]
    if not found:
        pairs = itertools.combinations(excluded, 2)
        found = [f"{a} and {b}" for a, b in pairs if excluded[a] | excluded[b] == everybody][:1]
    return " or ".join(f"only {text}" for text in found)


def _properties(failed: Sequence[Case], passed: Sequence[Case]) -> Iterator[Property]:
    """Properties of the first failed case, which the others may share, the simplest first."""
    yield from _words(failed[0])
    yield from _widths(failed[0])
    for name in ("columns", "rows", "elements"):
        yield from _sizes(name, attrgetter(name), failed, passed)


def _words(first: Case) -> Iterator[Property]:
    yield first.dtype, lambda case: case.dtype == first.dtype
    if first.out_dtype != first.dtype:
        yield f"output {first.out_dtype}", lambda case: case.out_dtype == first.out_dtype
        yield "an output of another dtype", lambda case: case.out_dtype != case.dtype
    if first.layout != "contiguous":
        yield f"layout {first.layout}", lambda case: case.layout == first.layout
        yield "views", lambda case: case.layout != "contiguous"
    yield from map(_parameter, first.params)
    if first.distribution != "normal":
        yield f"distribution {first.distribution}", lambda case: case.distribution == first.distribution
        family = first.distribution.split("_")[0]
        yield f"distributions {family}_*", lambda case: case.distribution.split("_")[0] == family
        yield "inputs that are not normal", lambda case: case.distribution != "normal"
    if len(first.shape) != 2:
        yield f"{len(first.shape)} dimensions", lambda case: len(case.shape) == len(first.shape)


def _parameter(own: tuple[str, Scalar]) -> Property:
    return f"{own[0]} {own[1]}", lambda case: own in case.params


def _widths(first: Case) -> Iterator[Property]:
    """Properties of the number of columns that decide how a kernel reads a row."""
    word = "a power of two" if _is_power(first) else "no power of two"
    yield f"widths that are {word}", lambda case: _is_power(case) == _is_power(first)
    word = "even" if first.columns % 2 == 0 else "odd"
    yield f"{word} widths", lambda case: case.columns % 2 == first.columns % 2
    word = "whole" if is_whole(first) else "no whole"
    yield f"rows of {word} {VECTOR_BYTES}-byte vectors", lambda case: is_whole(case) == is_whole(first)


def _sizes(name: str, size: Callable[[Case], int], failed: Sequence[Case], passed: Sequence[Case]) -> Iterator[Property]:
    """One number, or a range that ends where a case passes."""
    least, most = min(map(size, failed)), max(map(size, failed))
    smaller = [size(case) for case in passed if size(case) < least]
    larger = [size(case) for case in passed if size(case) > most]
    if least == most:
        yield f"{least} {name}", lambda case: size(case) == least
    if smaller:
        yield f"at least {least} {name} ({max(smaller)} pass)", lambda case: size(case) >= least
    if larger:
        yield f"at most {most} {name} ({min(larger)} pass)", lambda case: size(case) <= most


def _is_power(case: Case) -> bool:
    return case.columns > 0 and case.columns & (case.columns - 1) == 0


def is_whole(case: Case) -> bool:
    """Whether each row is whole vectors of 16 bytes."""
    return case.columns * DTYPE_BYTES[case.dtype] % VECTOR_BYTES == 0
