"""What is computed: inputs, reference, error bound, ideal bytes. Nothing outside this package names an operator.

Importing this package imports no torch; `get` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from softbench.model import Case
from softbench.operators.outputs import lazy
from softbench.operators.words import (
    ATTENTION_OPERATORS,
    DISTRIBUTIONS,
    OPERATORS,
    ROW_OPERATORS,
    check_distribution,
    check_layout,
)

if TYPE_CHECKING:
    from torch import Tensor

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


@dataclass(frozen=True)
class OutputSpec:
    """Shape and dtype (a word of `softbench.model.DTYPES`) of one output."""

    shape: tuple[int, ...]
    dtype: str

    def fault(self, y: Any, inputs: tuple[Tensor, ...]) -> str:
        """What keeps `y`, whatever it is, from being this output of a launch on `inputs`; "" where nothing does.

        It must be a dense tensor on the inputs' device, in any order of its dimensions, and in memory of its own.
        """
        import torch

        from softbench.operators.inputs import share

        if issubclass(type(y), tuple):
            return f"wrong type: {type(y).__name__}, a subclass of tuple; return a plain tuple"
        if not issubclass(type(y), torch.Tensor):
            return f"wrong type: {type(y).__name__} where a tensor is expected"
        if why := lazy(y):
            return f"left lazy: {why}"
        if y.dtype is not getattr(torch, self.dtype):
            return f"wrong dtype: {str(y.dtype).removeprefix('torch.')} where {self.dtype} is expected"
        if tuple(y.shape) != self.shape:
            return f"wrong shape: {tuple(y.shape)} where {self.shape} is expected"
        if y.device != inputs[0].device:
            return f"wrong device: {y.device} where {inputs[0].device} is expected"
        if y.layout is not torch.strided:
            return f"wrong layout: {str(y.layout).removeprefix('torch.')} where a dense tensor is expected"
        if not _is_dense(tuple(y.shape), y.stride()):
            return f"wrong strides: {tuple(y.stride())} for the shape {tuple(y.shape)}; an output must be dense"
        if any(share(x, y) for x in inputs):
            return "the output is a view of the input's memory"
        return ""


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements fill a stretch of memory, each place once, in any order of the dimensions."""
    step = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride != step:
            return 0 in shape
        step *= max(1, size)
    return True


@dataclass(frozen=True)
class Expected:
    """The right values of one block: some rows of an output, and the columns from `first_column` on.

    values   (rows, width) float64: the result in exact arithmetic
    slack    (rows, width) float64: the absolute error that the arithmetic of a right kernel may make before it rounds
    allowed  (rows, width) float64: slack plus the rounding to the output's dtype; the bound on |got - values|
    others   (rows, width) float64 each: results of other ways of rounding that are right as well. `allowed` reaches that
             far; a row's invariant may be that of any.
    """

    values: Tensor
    slack: Tensor
    allowed: Tensor
    first_column: int = 0
    output: int = 0
    others: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Invariant:
    """A figure of each row that a right output holds to more tightly than its elements do; all fields add over blocks.

    The figure `got` of an output that is rounded once lies between `low` and `high`; a second rounding adds an error of
    the given variance. `exact` is the figure before any rounding. All five are (rows,) float64. Rows whose bounds are
    NaN are not judged. `independent` says that errors of different rows are unrelated, so that their mean is a figure
    too.
    """

    name: str
    got: Tensor
    low: Tensor
    high: Tensor
    exact: Tensor
    variance: Tensor
    independent: bool = False

    @property
    def middle(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def margin(self) -> Tensor:
        """The error allowed around `middle`: the bounds, six standard deviations, and twice what rounding once does.

        The last is for rows of few distinct values, whose errors do not cancel: 262144 bfloat16 normals sum to
        1.00008 where each is rounded to nearest, ten times what independent errors would do.
        """
        return (self.high - self.low) / 2 + 6 * self.variance.sqrt() + 2 * (self.middle - self.exact).abs()

    @property
    def violated(self) -> Tensor:
        """(rows,) bool."""
        return (self.got - self.middle).abs() > self.margin

    def or_else(self, other: Invariant) -> Invariant:
        """Of each row whichever of two right figures `got` is nearer to, by its margin."""
        far = (self.got - self.middle).abs() * other.margin > (other.got - other.middle).abs() * self.margin
        return replace(
            self,
            low=other.low.where(far, self.low),
            high=other.high.where(far, self.high),
            exact=other.exact.where(far, self.exact),
            variance=other.variance.where(far, self.variance),
        )

    def plus(self, other: Invariant) -> Invariant:
        """The invariant of two blocks of the same rows."""
        return replace(
            self,
            got=self.got + other.got,
            low=self.low + other.low,
            high=self.high + other.high,
            exact=self.exact + other.exact,
            variance=self.variance + other.variance,
        )

    def total(self) -> Invariant:
        """The invariant of the sum over all judged rows; its fields are (1,) float64."""
        judged = self.low.isfinite() & self.high.isfinite()
        return replace(
            self,
            got=self.got.where(judged, 0.0).sum(0, keepdim=True),
            low=self.low.where(judged, 0.0).sum(0, keepdim=True),
            high=self.high.where(judged, 0.0).sum(0, keepdim=True),
            exact=self.exact.where(judged, 0.0).sum(0, keepdim=True),
            variance=self.variance.where(judged, 0.0).sum(0, keepdim=True),
        )

    def fault(self, row: int) -> str:
        """What is wrong with one row, in words."""
        got, middle, margin = (float(figure[row]) for figure in (self.got, self.middle, self.margin))
        return f"{got:.9g}, expected {middle:.9g} (allowed +-{margin:.2g})"

    def bias(self, rows: int) -> str:
        """What is wrong with the mean over `rows` rows, of which this is the total; "" where nothing is.

        A mean shows a bias that the scatter of a single row hides.
        """
        if not self.independent or not bool(self.violated):
            return ""
        got, middle, margin = (float(figure) / rows for figure in (self.got, self.middle, self.margin))
        return f"{self.name}s off: their mean is {got:.9g}, expected {middle:.9g} (allowed +-{margin:.2g})"


class Operator(Protocol):
    """One operator. Tensors are seen as (case.rows, anything) matrices: rows are what is computed independently."""

    @property
    def name(self) -> str:
        """The word that cases and implementations use."""

    @property
    def roof(self) -> str:
        """Name of the set of roof kernels that shows how fast this operator could be."""

    @property
    def baseline(self) -> str:
        """Name of the implementation that speed-ups are stated over; it runs whatever is selected."""

    @property
    def bound(self) -> str:
        """What the textbook algorithm is bound by on long inputs: "memory", or "arithmetic", where boards show TFLOP/s."""

    def ideal_bytes(self, case: Case) -> int:
        """Bytes that must move: each input read once, each output written once."""

    def ideal_flops(self, case: Case) -> int:
        """Floating-point operations of the textbook algorithm; an exponential counts as one."""

    def make_inputs(self, case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
        """Inputs with the case's shape, dtype, layout and distribution, drawn on `device` ("cpu", "cuda", "cuda:1").

        The same (case, seed, type of device) gives the same bits. Each input is a view into a larger storage whose
        other bytes are all 0xFF (NaN in every dtype): read outside it poisons the result, a write outside it is seen.
        Raises ValueError for a layout that the shape cannot have.
        """

    def refill(self, case: Case, inputs: tuple[Tensor, ...], seed: int) -> None:
        """Draw into existing inputs, in place, what `make_inputs` would draw with this seed."""

    def output_specs(self, case: Case) -> tuple[OutputSpec, ...]:
        """What a launch returns, in order."""

    def expected(self, case: Case, inputs: tuple[Tensor, ...], rows: slice | Tensor, device: str) -> Iterator[Expected]:
        """The right values of some rows (a slice, or int64 indices on any device), computed in float64 on `device`.

        Yields every output's blocks from left to right; a block has at most about `inputs.BLOCK_ELEMENTS` elements
        where the caller asks for no more than that many in the rows, or for one row.
        """

    def invariants(self, case: Case, expected: Expected, got: Tensor) -> Invariant | None:
        """What holds for whole rows, over the block `got` (float64, as `expected.values`); None where nothing does."""


def counted_flops(case: Case) -> int:
    """Ideal flops of a case whose operator is bound by arithmetic; 0 for others, whose speed is told in bytes."""
    operator = get(case.operator)
    return operator.ideal_flops(case) if operator.bound == "arithmetic" else 0


def get(name: str) -> Operator:
    """The operator of this name. Raises ValueError, naming the choices, for an unknown one."""
    if name == "softmax":
        from softbench.operators.softmax import Softmax

        return Softmax()
    if name == "softmax_backward":
        from softbench.operators.softmax_backward import SoftmaxBackward

        return SoftmaxBackward()
    if name in ATTENTION_OPERATORS:
        from softbench.operators.attention import ATTENTIONS

        return ATTENTIONS[name]
    if name in OPERATORS:
        from softbench.operators.norms import NORMS

        return NORMS[name]
    raise ValueError(f"unknown operator {name!r}; choose one of {', '.join(OPERATORS)}")
