"""Inputs by distribution and layout, and their rows as matrices; shared by all operators."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from softbench.model import Case
from softbench.operators.words import Layout, check_distribution, parse_layout

if TYPE_CHECKING:
    from torch import Generator, Tensor

GUARD_BYTES = 4096  # a multiple of 512, so that a guard leaves the alignment that torch's allocator gives
DRAW_ELEMENTS = 2**27  # drawn at once: a boolean mask over them takes 128 MB
BLOCK_ELEMENTS = 2**22  # compared at once: 32 MB in float64, of which a comparison holds about eight
SEGMENT_COLUMNS = 256


def allocate(shape: tuple[int, ...], dtype: str, layout: Layout, device: str) -> Tensor:
    """An input of this shape, dtype and layout whose storage has a guard before and after it.

    Every byte of the storage is 0xFF. Raises ValueError where the layout is transposed and the shape has less than
    two dimensions.
    """
    import torch

    strides = _strides(shape, layout)
    empty = 0 in shape
    span = 0 if empty else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    element: torch.dtype = getattr(torch, dtype)
    used = (layout.offset + span) * element.itemsize
    words = (2 * GUARD_BYTES + used + 7) // 8
    storage = torch.full((words,), -1, dtype=torch.int64, device=device).view(element)
    return storage.as_strided(shape, strides, GUARD_BYTES // element.itemsize + layout.offset)


def _strides(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    if layout.transposed:
        if len(shape) < 2:
            raise ValueError(f"layout transposed needs two dimensions; the shape is {shape}")
        strides = [1, shape[-2]]
        step = shape[-1] * shape[-2]
        outer = shape[:-2]
    else:
        strides = [layout.column_step] if shape else []
        step = 0 if layout.broadcast else shape[-1] * layout.column_step + layout.row_pad if shape else 0
        outer = shape[:-1]
    for size in reversed(outer):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def distinct(case: Case) -> int:
    """Elements of an input of the case's shape and layout that lie at different places in memory."""
    return case.columns if parse_layout(case.layout).broadcast and case.rows else case.elements


def as_rows(x: Tensor, rows: int) -> Tensor | None:
    """The (rows, columns) view of a tensor that is not empty; None where its strides have no such view."""
    columns = x.numel() // rows
    try:
        return x.view(rows, columns)
    except RuntimeError:
        return None


def take_rows(x: Tensor, rows: int, wanted: slice | Tensor) -> Tensor:
    """Some rows of a tensor that has `rows` of them, as (wanted, columns): a view where the strides allow it.

    wanted is a slice with both ends, or int64 indices on any device.
    """
    import torch

    matrix = as_rows(x, rows)
    if isinstance(wanted, slice):
        if matrix is not None:
            return matrix[wanted]
        wanted = torch.arange(wanted.start, wanted.stop, device=x.device)
    wanted = wanted.to(x.device)
    if matrix is not None:
        return matrix[wanted]
    return x[torch.unravel_index(wanted, x.shape[:-1])]


def damage(x: Tensor, pristine: Tensor) -> str:
    """What a launch did to the storage of `x`, which began as that of `pristine`, bit for bit; "" where nothing."""
    import torch

    if torch.equal(_words(x), _words(pristine)):
        return ""
    changed = bits(x) != bits(pristine)
    if count := int(changed.sum()):
        # not nonzero(), which CUDA has for less than 2^31 elements only
        first = torch.unravel_index(changed.flatten().to(torch.uint8).argmax(), x.shape)
        index = ", ".join(str(int(i)) for i in first)
        return f"the input was overwritten: {count} of {x.numel()} elements changed, first at [{index}]"
    return "the launch wrote outside the input, into the bytes around its elements"


def _words(x: Tensor) -> Tensor:
    """The whole storage of an input that `allocate` made, as int64."""
    import torch

    return torch.empty(0, dtype=torch.int64, device=x.device).set_(x.untyped_storage())


def same_bits(x: Tensor, y: Any) -> bool:
    """Whether `y` is a tensor of the shape, dtype, device and bits of `x`; a NaN equals itself."""
    import torch

    if not isinstance(y, torch.Tensor) or (x.shape, x.dtype, x.device) != (y.shape, y.dtype, y.device):
        return False
    return bool(torch.equal(bits(x), bits(y)))


def share(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors, neither of them empty, lie in one storage."""
    return x.numel() > 0 < y.numel() and bool(x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr())


def bits(x: Tensor) -> Tensor:
    """The same memory as integers of the elements' size: 2, 4 or 8 bytes."""
    import torch

    return x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


@dataclass(frozen=True)
class _Slab:
    """Rows to be drawn: x (rows, columns) in place; i (rows, 1) and j (1, columns) are indices in the whole input."""

    x: Tensor
    i: Tensor
    j: Tensor
    generator: Generator

    @property
    def columns(self) -> int:
        return int(self.x.shape[1])

    @property
    def lowest(self) -> float:
        import torch

        return float(torch.finfo(self.x.dtype).min)

    @property
    def special(self) -> Tensor:
        """(rows, 1) bool: the rows that hold what the distribution is about, where it is one row in two."""
        return self.i % 2 == 0

    def normal(self) -> None:
        self.x.normal_(generator=self.generator)

    def put(self, where: Tensor, value: float) -> None:
        self.x.masked_fill_(where, value)

    def value(self, word: str) -> float:
        return self.lowest if word == "min" else float(word)


def _uniform(slab: _Slab, low: float, high: float) -> None:
    slab.x.uniform_(low, high, generator=slab.generator)


def _peaked(slab: _Slab) -> None:
    import torch

    slab.normal()
    peak = torch.randint(slab.columns, slab.i.shape, generator=slab.generator, device=slab.x.device)
    slab.x.scatter_(1, peak, 20.0)


def _equal(slab: _Slab) -> None:
    value = slab.x.new_empty(slab.i.shape).normal_(generator=slab.generator)
    slab.x.copy_(value.expand_as(slab.x))


def _shifted(slab: _Slab, shift: float) -> None:
    slab.normal()
    slab.x.add_(shift).clamp_(slab.lowest, -slab.lowest)  # float16 cannot hold 1e5


def _dtype_max(slab: _Slab) -> None:
    import torch

    slab.normal()
    third = torch.randint(3, slab.x.shape, generator=slab.generator, device=slab.x.device, dtype=torch.int8)
    slab.put(third == 0, slab.lowest)
    slab.put(third == 1, -slab.lowest)


def _causal(slab: _Slab, word: str) -> None:
    slab.normal()
    slab.put(slab.j > slab.i % slab.columns, slab.value(word))


def _padding(slab: _Slab, word: str) -> None:
    import torch

    slab.normal()
    valid = torch.randint(1, slab.columns + 1, slab.i.shape, generator=slab.generator, device=slab.x.device)
    slab.put(slab.j >= valid, slab.value(word))


def _prefix(slab: _Slab, valid: int) -> None:
    slab.normal()
    slab.put(slab.j >= valid, float("-inf"))


def _segments(slab: _Slab) -> None:
    slab.normal()
    if slab.columns > 1:
        width = min(SEGMENT_COLUMNS, slab.columns // 2)
        slab.put((slab.j // width % 2 == 1) ^ (slab.i % 2 == 1), float("-inf"))


def _whole_row(slab: _Slab, word: str) -> None:
    slab.normal()
    slab.put(slab.special, slab.value(word))


def _one_element(slab: _Slab, word: str, numerator: int) -> None:
    """The element after `numerator` halves of the row is what the word says."""
    slab.normal()
    column = numerator * (slab.columns - 1) // 2
    slab.put(slab.special & (slab.j == column), float(word))


def _nan_with_inf(slab: _Slab) -> None:
    slab.normal()
    slab.put(slab.special & (slab.j >= slab.columns // 4), float("-inf"))
    slab.put(slab.special & (slab.j == slab.columns // 2), float("nan"))


def _growing(slab: _Slab) -> None:
    import torch

    slab.x.normal_(0, 0.01, generator=slab.generator)
    slab.x.add_(torch.linspace(-30, 30, slab.columns, device=slab.x.device).to(slab.x.dtype))


_DRAW: dict[str, Callable[[_Slab], None]] = {
    "normal": _Slab.normal,
    "uniform": partial(_uniform, low=-1, high=1),
    "uniform_0_10": partial(_uniform, low=0, high=10),
    "uniform_500_1000": partial(_uniform, low=500, high=1000),
    "peaked": _peaked,
    "equal": _equal,
    "dtype_max": _dtype_max,
    "segments_inf": _segments,
    "nan_with_inf": _nan_with_inf,
    "growing": _growing,
    **{f"shifted_{word}": partial(_shifted, shift=float(word)) for word in ("1e2", "-1e2", "1e4", "-1e4", "1e5")},
    **{f"prefix_inf_{valid}": partial(_prefix, valid=valid) for valid in (1, 255, 256, 257)},
    "causal_inf": partial(_causal, word="-inf"),
    "padding_inf": partial(_padding, word="-inf"),
    "all_inf": partial(_whole_row, word="-inf"),
    "causal_min": partial(_causal, word="min"),
    "padding_min": partial(_padding, word="min"),
    "all_min": partial(_whole_row, word="min"),
    "plus_inf": partial(_one_element, word="inf", numerator=1),
    "nan_first": partial(_one_element, word="nan", numerator=0),
    "nan_middle": partial(_one_element, word="nan", numerator=1),
    "nan_last": partial(_one_element, word="nan", numerator=2),
}


def fill(x: Tensor, distribution: str, layout: Layout, key: str) -> None:
    """Draw into `x`, in place and on its device; key decides the values. Raises ValueError for an unknown distribution.

    Rows are drawn in slabs in the dtype itself: beside `x` it takes one byte an element of a slab, and for a
    transposed input of more than two dimensions a copy of it.
    """
    import torch

    check_distribution(distribution)
    if x.numel() == 0:
        return
    if layout.broadcast and x.dim() > 1:
        x = x[(0,) * (x.dim() - 1)]
    rows = x.numel() // x.shape[-1] if x.dim() else 1
    matrix = as_rows(x, rows)
    target = x.new_empty(rows, x.numel() // rows) if matrix is None else matrix
    digest = hashlib.blake2b(key.encode(), digest_size=7).digest()
    generator = torch.Generator(device=x.device).manual_seed(int.from_bytes(digest, "big"))
    columns = target.shape[1]
    step = max(1, DRAW_ELEMENTS // columns)
    i = torch.arange(rows, device=x.device)[:, None]
    j = torch.arange(columns, device=x.device)[None, :]
    for start in range(0, rows, step):
        chosen = slice(start, start + step)
        _DRAW[distribution](_Slab(target[chosen], i[chosen], j, generator))
    if matrix is None:
        x.copy_(target.view(x.shape))
