"""Flops and needed columns as an operator's file states them: expressions that are read, and not run as code."""

import ast
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from softbench.cases.operators.parameters import Parameter

MOST = 2**63 - 1  # in a record; more is cut to it


def of(text: Any, params: Sequence[Parameter], key: str) -> str:
    """The text, if it counts sizes and parameters from 0 on; of the key "needs", the columns that a row's place needs.

    Raises ValueError of one line.
    """
    is_flops = key == "flops"
    sizes = ["rows", "columns"] if is_flops else ["columns", "queries", "query"]
    names = [*sizes, *(p.name for p in params if p.low >= 0)]
    try:
        if not isinstance(text, str) or len(text) > 200:
            raise ValueError
        _value(_parsed(text), dict.fromkeys(names, 1), differences=not is_flops)
    except (ValueError, SyntaxError, ArithmeticError):
        example, more = ("2 * rows", "+ and *") if is_flops else ("min(cap, query + 1)", "+ - * and min()")
        words = f"numbers, {', '.join(names)}, with {more}, and / by a number"
        raise ValueError(f"{key} is a short text such as '{example}', not {text!r:.60}: {words}") from None
    return text


def count(text: str, values: Mapping[str, Any]) -> int:
    """The number of an expression whose names have these values, in floats: no product is an error."""
    found = _value(_parsed(text), values)
    return round(found) if found < MOST else MOST


@functools.cache
def needed(text: str, queries: int, columns: int, params: tuple[tuple[str, Any], ...]) -> int:
    """Elements of a matrix of `queries` rows that a right kernel must read; of a row 0 to all."""
    node, values = _parsed(text), {"queries": queries, "columns": columns, **dict(params)}
    rows = (_value(node, values | {"query": query}, differences=True) for query in range(queries))
    return sum(round(min(max(row, 0), columns)) for row in rows)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, values: Mapping[str, Any], *, differences: bool = False) -> float:
    """Raises ValueError for what is no such expression. differences: with - and min() too."""
    value = functools.partial(_value, values=values, differences=differences)
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(name) if name in values:
            return float(values[name])
        case ast.BinOp(left, ast.Add(), right):
            return value(left) + value(right)
        case ast.BinOp(left, ast.Mult(), right):
            return value(left) * value(right)
        case ast.BinOp(left, ast.Div(), ast.Constant() as right):
            return value(left) / value(right)
        case ast.BinOp(left, ast.Sub(), right) if differences:
            return value(left) - value(right)
        case ast.Call(ast.Name("min"), [left, right], []) if differences:
            return min(value(left), value(right))
    raise ValueError
