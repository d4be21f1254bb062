"""The Triton kernels of the roofs; imports triton, so only a factory imports it.

Each moves `words` integers of every stream, BLOCK per program; WHOLE if BLOCK divides words. Pointers come first, written ones
before read ones.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def copy_words(
    y_ptr: tl.tensor, x_ptr: tl.tensor, words: tl.tensor, BLOCK: tl.constexpr, WHOLE: tl.constexpr, STREAM: tl.constexpr
) -> None:
    """y = x."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = None if WHOLE else at < words
    x = tl.load(x_ptr + at, mask=inside, eviction_policy="evict_first" if STREAM else "")
    tl.store(y_ptr + at, x, mask=inside, cache_modifier=".cs" if STREAM else "")


@triton.jit  # type: ignore[untyped-decorator]
def merge_words(
    y_ptr: tl.tensor,
    a_ptr: tl.tensor,
    b_ptr: tl.tensor,
    words: tl.tensor,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
    STREAM: tl.constexpr,
) -> None:
    """y = a xor b."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = None if WHOLE else at < words
    a = tl.load(a_ptr + at, mask=inside, eviction_policy="evict_first" if STREAM else "")
    b = tl.load(b_ptr + at, mask=inside, eviction_policy="evict_first" if STREAM else "")
    tl.store(y_ptr + at, a ^ b, mask=inside, cache_modifier=".cs" if STREAM else "")


@triton.jit  # type: ignore[untyped-decorator]
def cross_words(
    y_ptr: tl.tensor,
    z_ptr: tl.tensor,
    a_ptr: tl.tensor,
    b_ptr: tl.tensor,
    words: tl.tensor,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
    STREAM: tl.constexpr,
) -> None:
    """y = a xor b, z = a and b."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = None if WHOLE else at < words
    a = tl.load(a_ptr + at, mask=inside, eviction_policy="evict_first" if STREAM else "")
    b = tl.load(b_ptr + at, mask=inside, eviction_policy="evict_first" if STREAM else "")
    tl.store(y_ptr + at, a ^ b, mask=inside, cache_modifier=".cs" if STREAM else "")
    tl.store(z_ptr + at, a & b, mask=inside, cache_modifier=".cs" if STREAM else "")
