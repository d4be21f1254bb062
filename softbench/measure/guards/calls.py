"""What timed calls wrote, copied as they return: in memory of their own, and not changed by a thread that goes on."""

from collections.abc import Sequence
from typing import Any

from softbench.cases.operators.changes import nudge
from softbench.cases.operators.inputs import same_bits, words_of
from softbench.cases.operators.outputs import as_tuple, lazy
from softbench.measure.clocks import COMPARED_ELEMENTS, Placement
from softbench.measure.incorrect import WrongWhenTimed
from softbench.model import Tensor


class KeptCalls(Placement):
    """The buffers of a placement on a CPU, with copies of what some timed calls of the last turn wrote."""

    _kept: Sequence[tuple[int, list[Tensor]]] = ()

    def renew(self) -> None:
        """Change one element of one input; of those that calls overwrite, of all alike, which get back what they held."""
        self.nudge()
        if 0 in self.kept and self._in_use:
            nudge(self.kept[0], self._rng)
        for place, kept in self.kept.items():
            for call in self.inputs:
                words_of(call[place]).copy_(words_of(kept))

    def given(self, index: int) -> tuple[Tensor, ...]:
        return tuple(self.kept.get(n, x) for n, x in enumerate(super().given(index)))

    def keep(self) -> None:
        """Copy what some timed calls have written, the last call's first; `pick` then returns these calls.

        Raises WrongWhenTimed if an output is lazy: its values would be computed while they are copied.
        """
        self._kept = ()
        self._kept = [self._copied(index) for index in dict.fromkeys([len(self.outputs) - 1, *self.drawn()])]

    def _copied(self, index: int) -> tuple[int, list[Tensor]]:
        written = _tensors(self.outputs[index])
        if why := next(filter(None, map(lazy, written)), ""):
            raise WrongWhenTimed(f"left lazy: {why}")
        return index, [_end(y).clone() for y in written]

    def drawn(self) -> list[int]:
        return [index for index, _ in self._kept] or super().drawn()

    def changed(self) -> str:
        for index, copies in self._kept:
            if not all(map(same_bits, copies, map(_end, _tensors(self.outputs[index])))):
                return "left unfinished: the output changed after the timed calls had returned"
        return ""


def shared(calls: Sequence[Any]) -> str:
    """What is wrong if two calls, whose outputs are all held, returned the same memory; else ""."""
    import torch

    owner: dict[int, int] = {}
    for i, outputs in enumerate(calls):
        plain = [y for y in as_tuple(outputs) if type(y) is torch.Tensor and y.layout is torch.strided and y.numel()]
        if any(owner.setdefault(y.untyped_storage().data_ptr(), i) != i for y in plain):
            return "one static buffer: two calls returned the same memory"
    return ""


def _tensors(returned: Any) -> list[Tensor]:
    """The tensors among the outputs of a launch; the comparison refuses anything else."""
    import torch

    return [y for y in as_tuple(returned) if issubclass(type(y), torch.Tensor)]


def _end(y: Tensor) -> Tensor:
    """The end of an output that is too long to be copied, which is written last; else all of it."""
    return y.detach().view(-1)[-COMPARED_ELEMENTS:] if y.is_contiguous() else y.detach()
