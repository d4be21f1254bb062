"""Flops as an operator's file states them: an expression that is read, and not run as code."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from softbench.cases.operators.parameters import Parameter

MOST = 2**63 - 1  # in a record; more is cut to it


def of(text: Any, params: Sequence[Parameter]) -> str:
    """The text, if it counts sizes and parameters from 0 on. Raises ValueError of one line."""
    names = ["rows", "columns", *(p.name for p in params if p.low >= 0)]
    try:
        if not isinstance(text, str) or len(text) > 200:
            raise ValueError
        count(text, dict.fromkeys(names, 1))
    except (ValueError, SyntaxError, ArithmeticError):
        words = f"numbers, {', '.join(names)}, with + and *, and / by a number"
        raise ValueError(f"flops is a short text such as '2 * rows', not {text!r:.60}: {words}") from None
    return text


def count(text: str, values: Mapping[str, Any]) -> int:
    """The number of an expression whose names have these values, in floats: no product is an error."""

    def value(node: ast.expr) -> float:
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
        raise ValueError

    found = value(ast.parse(text, mode="eval").body)
    return round(found) if found < MOST else MOST
