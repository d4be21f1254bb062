"""The interface of operators: inputs, outputs, right values, ideal bytes and flops."""

from collections.abc import Iterator
from typing import Protocol

from softbench.cases.operators.expected import Expected, Invariant
from softbench.cases.operators.outputs import OutputSpec
from softbench.cases.operators.streams import Stream
from softbench.model import Case, Tensor


class Operator(Protocol):
    """One operator. Tensors are seen as (case.rows, anything) matrices: rows are what is computed independently."""

    @property
    def name(self) -> str:
        """The word that cases and implementations use."""

    @property
    def reads(self) -> tuple[Stream, ...]:
        """The inputs, except of attention."""

    @property
    def writes(self) -> tuple[Stream, ...]:
        """The outputs, except of attention."""

    @property
    def roof(self) -> str:
        """Name of the set of roof kernels that shows how fast this operator could be."""

    @property
    def baseline(self) -> str:
        """Name of the implementation that speed-ups are stated over; it runs whatever is selected."""

    @property
    def bound(self) -> str:
        """What bounds the textbook algorithm on long inputs: "memory", or "arithmetic"; then boards show TFLOP/s."""

    def ideal_bytes(self, case: Case) -> int:
        """Bytes that must move: each input read once, each output written once."""

    def ideal_flops(self, case: Case) -> int:
        """Floating-point operations of the textbook algorithm; an exponential counts as one."""

    def make_inputs(self, case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
        """Inputs with the case's shape, dtype, layout and distribution, drawn on `device` ("cpu", "cuda", "cuda:1").

        The same (case, seed, type of device) gives the same bits. Each input is a view into a larger storage whose
        other bytes are all 0xFF (NaN in every dtype): read outside it poisons the result, a write outside it is seen.
        On the device "meta" they are layouts alone, and nothing is drawn.
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
        """What holds for whole rows of the block `got` (of any dtype, shaped as `expected.values`); None if nothing does."""
