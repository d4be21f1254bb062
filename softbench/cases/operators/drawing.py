"""The values of a drawn input: the pieces of `recipes`, and noise that is a hash of an element's place.

No device's generator is used, and every step is exact or rounded once by IEEE 754, so all devices give the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from softbench.cases.operators.recipes import RECIPES, Form, Piece, row

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SLAB_ELEMENTS = 2**22  # drawn at once: 32 MB per intermediate of 64 bits
LOW_32 = 2**32 - 1
ODD = 0x7FEB352D  # of the hash by C. Wellons (nullprogram.com, "Prospecting for hash functions"); below 2^31: no product overflows
MASKS = ("", "-inf", "min")


def recipe(x: Tensor, key: str, form: Form) -> None:
    """Fill (rows, columns), neither of them 0, in place with the rows that `recipes.row` draws from the key."""
    import torch

    work = torch.promote_types(x.dtype, torch.float32)
    count = min(len(x), RECIPES)
    made = [row(f"{key} {number}", x.shape[1], form) for number in range(count)]
    level, width, mask = _laid_out(made, x.shape[1], work, x.device)
    limits = torch.finfo(x.dtype)
    for first, part in _slabs(x):
        chosen = torch.arange(first, first + len(part), device=x.device) % count
        values = _noise(first, part, key, work).mul_(width[chosen]).add_(level[chosen])
        values.clamp_(limits.min, limits.max)
        which = mask[chosen]
        values.masked_fill_(which == MASKS.index("-inf"), float("-inf")).masked_fill_(which == MASKS.index("min"), limits.min)
        part.copy_(values)


def plain(x: Tensor, key: str) -> None:
    """Fill (rows, columns) in place with values of mean 0 and variance 1, uniform between -sqrt(3) and sqrt(3)."""
    import torch

    work = torch.promote_types(x.dtype, torch.float32)
    for first, part in _slabs(x):
        part.copy_(_noise(first, part, key, work).mul_(3**0.5))


def whole(x: Tensor, key: str, below: int, share: float) -> None:
    """Fill (rows, columns) in place with integers from 0 to below `below`, both ends too, or bools of which a share is True."""
    import torch

    for first, part in _slabs(x):
        drawn = _hashed(first, part, key)
        part.copy_(drawn < share * 2**32 if x.dtype is torch.bool else drawn % below)
    for more, end in enumerate((below - 1, 0)[: 0 if x.dtype is torch.bool else x.numel()]):
        x[divmod((_salt(key) + more) % x.numel(), x.shape[1])] = end


def _slabs(x: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Parts of a matrix that is not empty, each with the number of its first row."""
    step = max(1, SLAB_ELEMENTS // x.shape[1])
    return ((first, x[first : first + step]) for first in range(0, len(x), step))


def _laid_out(
    made: list[tuple[Piece, ...]], columns: int, work: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """For all recipes, each (recipes, columns): the value without noise, half the width of the noise, the mask's number."""
    import torch

    most = max(map(len, made))
    end = Piece(columns, 0.0)
    padded = [[*pieces, *[end] * (most - len(pieces))] for pieces in made]
    rows = [[(p.start, p.level, p.slope, p.origin, p.noise, MASKS.index(p.mask)) for p in pieces] for pieces in padded]
    starts, *fields = torch.tensor(rows, dtype=torch.float64).to(device).unbind(2)
    column = torch.arange(columns, dtype=torch.float64, device=device).expand(len(made), -1).contiguous()
    piece = torch.searchsorted(starts.contiguous(), column, right=True).sub_(1)
    level, slope, origin, noise, mask = (field.gather(1, piece) for field in fields)
    level = column.sub_(origin).mul_(slope).add_(level)
    return level.to(work), noise.to(work), mask.to(torch.int8)


def _noise(first_row: int, like: Tensor, key: str, work: torch.dtype) -> Tensor:
    """Uniform in [-1, 1) in steps of 2^-23."""
    return (_hashed(first_row, like, key) >> 8).to(work).mul_(2.0**-23).sub_(1)


def _hashed(first_row: int, like: Tensor, key: str) -> Tensor:
    """Uniform from 0 to below 2^32, int64: a hash of the key and of the element's number in the whole input."""
    import torch

    first = first_row * like.shape[1] + _salt(key)
    h = torch.arange(first, first + like.numel(), device=like.device).view(like.shape)
    h &= LOW_32
    for _ in range(2):
        h ^= h >> 16
        h *= ODD
        h &= LOW_32
        h ^= h >> 15
    return h


def _salt(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big")
