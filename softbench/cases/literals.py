"""The values of a declaration: literals that can be stored and shown."""

import ast
import re
from typing import Any

from softbench.texts import cut, printable
from softbench.typed import fits

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*(?:>=\s*([A-Za-z0-9_.]+))?\s*")


def value_of(node: ast.expr) -> Any:
    """The value of an expression. Raises ValueError with a one-line message if it is no literal, or cannot be stored."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise ValueError(f"{_source(node)} is not a literal; the file is not imported, so write the value out") from None
    if not _fits(value):
        raise ValueError("a number that is not finite, or does not fit 64 bits, cannot be used here")
    return value


def _source(node: ast.expr) -> str:
    try:
        return " ".join(ast.unparse(node).split())
    except (ValueError, RecursionError, MemoryError):  # a number of thousands of digits, as many brackets
        return "this"


def _fits(value: Any) -> bool:
    """Whether all numbers in a literal can be stored."""
    if isinstance(value, dict):
        return _fits([*value, *value.values()])
    return all(map(_fits, value)) if isinstance(value, (list, tuple, set)) else fits(value)


def requirement_mistake(text: str) -> str:
    """What is wrong with a requirement: a GPU ("cuda>=sm_90") or a distribution ("triton>=3.6"); "" if nothing is."""
    match = _REQUIREMENT.fullmatch(text)
    if not match:
        return f"the requirement {word(text)!r} cannot be read; write 'cuda>=sm_90' or 'distribution>=1.2'"
    name, least = match.groups()
    if name != "cuda" or least is None or re.fullmatch(r"sm_[0-9]{2,3}", least):
        return ""
    digits = re.sub(r"[^0-9]", "", least)
    return f"the requirement {word(text)!r} cannot be read; did you mean 'cuda>=sm_{digits or 90}'?"


def word(text: str) -> str:
    """A text of a declaration as one printable line."""
    return printable(cut(text))
