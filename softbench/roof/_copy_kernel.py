"""The Triton kernel behind the copy roof; imports triton, so only a factory imports it."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def copy_words(
    y_ptr: tl.tensor, x_ptr: tl.tensor, words: tl.tensor, BLOCK: tl.constexpr, WHOLE: tl.constexpr, STREAM: tl.constexpr
) -> None:
    """Copy `words` integers, BLOCK of them a program; WHOLE where BLOCK divides them."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = None if WHOLE else at < words
    x = tl.load(x_ptr + at, mask=inside, eviction_policy="evict_first" if STREAM else "")
    tl.store(y_ptr + at, x, mask=inside, cache_modifier=".cs" if STREAM else "")
