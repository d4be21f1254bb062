"""The operators: inputs, reference, error bound, ideal bytes. Nothing outside this package names an operator.

A process also knows the operators of files that it was given (`use`): those of a command, or of a worker's request.

Importing this package imports no torch; its functions do.
"""

import functools
from collections.abc import Iterable, Mapping

from softbench.cases.declarations import python_files
from softbench.cases.operators import parameters
from softbench.cases.operators.attention import ATTENTIONS
from softbench.cases.operators.distributions import DISTRIBUTIONS
from softbench.cases.operators.expected import Expected, Invariant
from softbench.cases.operators.in_files import FileOperator
from softbench.cases.operators.norms import NORMS
from softbench.cases.operators.operator import Operator
from softbench.cases.operators.outputs import OutputSpec
from softbench.cases.operators.reading import read
from softbench.cases.operators.softmax import Softmax
from softbench.cases.operators.softmax_backward import SoftmaxBackward
from softbench.cases.operators.vocabulary import OPERATORS, ROW_OPERATORS, parse_layout
from softbench.model import Case
from softbench.resources import bundled_operators

__all__ = ["DISTRIBUTIONS", "OPERATORS", "ROW_OPERATORS", "Expected", "FileOperator", "Invariant", "Operator", "OutputSpec", "get"]

_ALL: tuple[Operator, ...] = (Softmax(), SoftmaxBackward(), *NORMS.values(), *ATTENTIONS.values())
_BY_NAME: dict[str, Operator] = {operator.name: operator for operator in _ALL}
_OF_FILES: dict[str, FileOperator] = {}


@functools.cache
def bundled() -> Mapping[str, FileOperator]:
    """The operators that come with softbench as files, by name; their functions are loaded where they are needed."""
    found = (read(path) for path in python_files(bundled_operators()))
    return {operator.name: operator for operator in found if operator is not None}


def use(operators: Iterable[FileOperator]) -> None:
    """Know these operators of files in this process, and of others the bundled ones only."""
    found = {operator.name: operator for operator in operators}
    _OF_FILES.clear()
    _OF_FILES.update(found)


def own() -> tuple[FileOperator, ...]:
    """The operators of files that this process was given."""
    return tuple(_OF_FILES.values())


def in_files() -> tuple[FileOperator, ...]:
    """All operators of files that this process knows."""
    return tuple({**bundled(), **_OF_FILES}.values())


def of_file(name: str) -> FileOperator | None:
    """The operator of this name if a file declares it."""
    return _OF_FILES.get(name) or bundled().get(name)


def names() -> tuple[str, ...]:
    """The names of all operators that this process knows."""
    return (*OPERATORS, *(operator.name for operator in in_files()))


def counted_flops(case: Case) -> int:
    """Ideal flops of a case whose operator is bound by arithmetic; 0 for others, whose speed is given in bytes."""
    operator = get(case.operator)
    return operator.ideal_flops(case) if operator.bound == "arithmetic" else 0


def moved_bytes(case: Case) -> tuple[int, int]:
    """Bytes of the inputs and of the outputs, each once."""
    operator, declared = get(case.operator), of_file(case.operator)
    outputs = sum(spec.nbytes for spec in operator.output_specs(case))
    return declared.held_bytes(case) if declared else operator.ideal_bytes(case) - outputs, outputs


def overwritten(name: str) -> dict[int, int]:
    """The numbers of an operator's outputs that take the memory of an input -> those of the inputs."""
    declared = of_file(name)
    return declared.over if declared else {}


def over_bytes(case: Case) -> int:
    """Bytes of these outputs."""
    specs = get(case.operator).output_specs(case)
    return sum(specs[number].nbytes for number in overwritten(case.operator))


def check_own(case: Case) -> None:
    """Raises ValueError for parameters that a case's operator does not declare, too few columns, or no room to overwrite."""
    declared = of_file(case.operator)
    parameters.check(case, declared.params if declared else ())
    if overwritten(case.operator) and (case.out_dtype != case.dtype or parse_layout(case.layout).broadcast):
        what = f"{case.layout!r}" if case.out_dtype == case.dtype else f"{case.dtype} to {case.out_dtype}"
        raise ValueError(f"{case.operator} overwrites an input, which leaves no room for {what}; choose another")
    least = declared.least_columns(case) if declared else 0
    if case.columns < least:
        raise ValueError(f"{case.operator} needs {least} columns at least, for as many indices, not {case.columns}")


def get(name: str) -> Operator:
    """The operator of this name. Raises ValueError, naming the choices, for an unknown one."""
    found = _BY_NAME.get(name) or of_file(name)
    if found is None:
        raise ValueError(f"unknown operator {name!r}; choose one of {', '.join(names())}")
    return found
