"""New values in the buffers of a placement between two replays, so that every timed replay computes its result again.

A kernel can keep anything in device memory: one that hashed its row and wrote only if the hash had changed scored 121 % of the
roof. So between the untimed replay and the timed one every output is poisoned and every row of every input changes, in a few
launches for all buffers together, and no line of the L2 persists.
"""

import ctypes
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from softbench.cases.operators.changes import STEP
from softbench.cases.operators.inputs import words_of
from softbench.model import Tensor

_FILL_BLOCK = 8192
_ROWS_BLOCK = 128
_READ_BLOCK = 1024
_READERS = 8
_LISTS = ("torch.int32", "torch.int64")

Matrix = tuple[int, int, int, int]
"""Rows, columns and the two strides, in elements."""


class Renewal:
    """Renews the buffers that it was made for. A call waits for the GPU first.

    inputs   of all calls. In each row of a call's first tensor one element is moved by `STEP`, as `changes.nudge` does; in each
             row of the others (weights, the y of a gradient) two elements are swapped, so that they stay valid. Lists of integers,
             several a row, stay: they may be in order
    kept     of the inputs that calls overwrite, by number: what they get back first
    outputs  of all calls, but for those: set to NaN in floating point, to -1 in integers
    is_warm  keep the inputs in the L2, by reading all: a line that was written lies in one half of it only
    """

    def __init__(
        self,
        inputs: Sequence[tuple[Tensor, ...]],
        outputs: Sequence[Any],
        *,
        is_warm: bool = False,
        kept: Mapping[int, Tensor] | None = None,
    ) -> None:
        from softbench.measure.renew import _kernels

        self._kernels = _kernels
        self._wait, self._reset_l2 = _device_calls()
        self._random = random.SystemRandom()
        returned = [y for output in outputs for y in (output if isinstance(output, tuple) else (output,))]
        self._kept = [([words_of(call[n]) for call in inputs], words_of(x)) for n, x in (kept or {}).items()]
        taken = {x.data_ptr() for storages, _ in self._kept for x in storages}
        self._poisoned = list(_poisoned(y for y in returned if y.untyped_storage().data_ptr() not in taken))
        self._moved = list(_matrices([call[0] for call in inputs], _element))
        others = [x for call in inputs for x in call[1:] if x.dim() < 2 or str(x.dtype) not in _LISTS]
        self._swapped = list(_matrices(others, lambda x: _word(x.element_size())))
        self._read = [*self._moved, *self._swapped] if is_warm else []

    def __call__(self) -> None:
        """The inputs first: then the end of the outputs is dirty in the L2, as after a replay."""
        import torch
        import triton

        self._wait()
        self._reset_l2()
        for storages, x in self._kept:
            torch._foreach_copy_(storages, [x] * len(storages))
        for table, matrix, element in self._moved:
            grid = (triton.cdiv(matrix[0], _ROWS_BLOCK), table.numel())
            seed = self._random.getrandbits(31)
            self._kernels.move_rows[grid](table, seed, *matrix, STEP=STEP, ELEMENT=element, BLOCK=_ROWS_BLOCK)
        for table, matrix, element in self._swapped:
            grid = (triton.cdiv(matrix[0], _ROWS_BLOCK), table.numel())
            self._kernels.swap_rows[grid](table, self._random.getrandbits(31), *matrix, ELEMENT=element, BLOCK=_ROWS_BLOCK)
        for table, words, word in self._poisoned:
            grid = (triton.cdiv(words, _FILL_BLOCK), table.numel())
            self._kernels.poison[grid](table, words, WORD=word, BLOCK=_FILL_BLOCK)
        for table, matrix, element in self._read:
            grid = (_READERS * triton.cdiv(matrix[0] * matrix[1], _READ_BLOCK), table.numel())
            word = _word(element.primitive_bitwidth // 8)
            self._kernels.read_rows[grid](table, table, *matrix, WORD=word, BLOCK=_READ_BLOCK, READERS=_READERS)


def _device_calls() -> tuple[Callable[[], object], Callable[[], object]]:
    """Wait for the GPU; make persisting lines of the L2 ordinary ones, by the driver."""
    import torch

    if not torch.cuda.is_available():
        return (lambda: None), (lambda: None)
    reset = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
    return torch.cuda.synchronize, reset


def _poisoned(outputs: Iterable[Tensor]) -> Iterator[tuple[Tensor, int, Any]]:
    """Tables of dense outputs of equal size: addresses, words in each, the type of a word.

    A view that is larger than its memory is left out: the comparison refuses it.
    """
    groups: dict[tuple[int, int], list[Tensor]] = {}
    for y in outputs:
        end = (y.storage_offset() + y.numel()) * y.element_size()
        if y.numel() and end <= y.untyped_storage().nbytes():
            groups.setdefault((y.numel(), y.element_size()), []).append(y)
    for (elements, size), alike in groups.items():
        yield _table(alike), elements, _word(size)


def _matrices(inputs: Iterable[Tensor], element: Callable[[Tensor], Any]) -> Iterator[tuple[Tensor, Matrix, Any]]:
    """Tables of inputs as equal matrices: addresses, shape and strides, the type of an element."""
    groups: dict[tuple[Matrix, Any], list[Tensor]] = {}
    for x in inputs:
        for matrix in _as_matrices(x):
            shape = (matrix.shape[0], matrix.shape[1], matrix.stride(0), matrix.stride(1))
            groups.setdefault((shape, element(x)), []).append(matrix)
    for (shape, own), alike in groups.items():
        yield _table(alike), shape, own


def _as_matrices(x: Tensor) -> list[Tensor]:
    """x without repetitions in memory, as 2-D views: one view if its rows are equally spaced."""
    for dimension, stride in enumerate(x.stride()[:-1]):
        if stride == 0:
            x = x.narrow(dimension, 0, 1)
    if not x.numel():
        return []
    try:
        return [x.view(-1, x.shape[-1]) if x.dim() else x.view(1, 1)]
    except RuntimeError:
        return [matrix for part in x.unbind(0) for matrix in _as_matrices(part)]


def _table(tensors: Sequence[Tensor]) -> Tensor:
    import torch

    return torch.tensor([x.data_ptr() for x in tensors], dtype=torch.int64, device=tensors[0].device)


def _word(size: int) -> Any:
    import triton.language as tl

    return {1: tl.int8, 2: tl.int16, 4: tl.int32, 8: tl.int64}[size]


def _element(x: Tensor) -> Any:
    import triton.language as tl

    return getattr(tl, str(x.dtype).removeprefix("torch."))
