"""The operators: inputs, reference, error bound, ideal bytes. Nothing outside this package names an operator.

Importing this package imports no torch; `get` does.
"""

from __future__ import annotations

import math

from softbench.cases.operators.expected import Expected, Invariant
from softbench.cases.operators.operator import Operator
from softbench.cases.operators.outputs import OutputSpec
from softbench.cases.operators.vocabulary import (
    ATTENTION_OPERATORS,
    DISTRIBUTIONS,
    OPERATORS,
    ROW_OPERATORS,
    check_distribution,
    check_layout,
)
from softbench.model import DTYPE_BYTES, Case

__all__ = [
    "DISTRIBUTIONS",
    "OPERATORS",
    "ROW_OPERATORS",
    "Expected",
    "Invariant",
    "Operator",
    "OutputSpec",
    "check_distribution",
    "check_layout",
    "get",
]


def counted_flops(case: Case) -> int:
    """Ideal flops of a case whose operator is bound by arithmetic; 0 for others, whose speed is given in bytes."""
    operator = get(case.operator)
    return operator.ideal_flops(case) if operator.bound == "arithmetic" else 0


def moved_bytes(case: Case) -> tuple[int, int]:
    """Ideal bytes of the inputs and of the outputs."""
    operator = get(case.operator)
    outputs = sum(math.prod(spec.shape) * DTYPE_BYTES[spec.dtype] for spec in operator.output_specs(case))
    return operator.ideal_bytes(case) - outputs, outputs


def get(name: str) -> Operator:
    """The operator of this name. Raises ValueError, naming the choices, for an unknown one."""
    if name == "softmax":
        from softbench.cases.operators.softmax import Softmax

        return Softmax()
    if name == "softmax_backward":
        from softbench.cases.operators.softmax_backward import SoftmaxBackward

        return SoftmaxBackward()
    if name in ATTENTION_OPERATORS:
        from softbench.cases.operators.attention import ATTENTIONS

        return ATTENTIONS[name]
    if name in OPERATORS:
        from softbench.cases.operators.norms import NORMS

        return NORMS[name]
    raise ValueError(f"unknown operator {name!r}; choose one of {', '.join(OPERATORS)}")
