"""The Triton kernel of attention: a program takes a block of queries through the keys, tile by tile, with a running softmax."""

import triton
import triton.language as tl


@triton.jit
def _tiles(
    acc, total, top, q, k_ptr, v_ptr, k_row, k_column, v_row, v_column, first, end, keys, last, scale,
    DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Keys first to end; a row sees those up to last. MASKED where not all rows see all of them, or they end in a tile."""
    columns = tl.arange(0, DIM)
    for start in tl.range(first, end, BLOCK_N, num_stages=STAGES):
        key = start + tl.arange(0, BLOCK_N)
        rows = key.to(tl.int64)[:, None]
        k_at = k_ptr + rows * k_row + columns[None, :] * k_column
        v_at = v_ptr + rows * v_row + columns[None, :] * v_column
        if MASKED:
            inside = (key < keys)[:, None]
            k = tl.load(k_at, mask=inside, other=0.0)
            v = tl.load(v_at, mask=inside, other=0.0)
        else:
            k = tl.load(k_at)
            v = tl.load(v_at)
        scores = tl.dot(q, tl.trans(k)) * scale
        if MASKED:
            scores = tl.where(key[None, :] <= last[:, None], scores, float("-inf"))
        risen = tl.maximum(top, tl.max(scores, 1))
        # A row that has seen nothing but -inf so far: -inf minus -inf would be NaN.
        origin = tl.where(risen == float("-inf"), 0.0, risen)
        p = tl.exp2(scores - origin[:, None])
        factor = tl.exp2(top - origin)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
        top = risen
    return acc, total, top


@triton.jit
def _span(row, first, queries, keys, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    """The last key that each row sees; the end of the keys that any sees; the whole tiles that all see."""
    if CAUSAL:
        last = tl.minimum(row + (keys - queries), keys - 1)
        end = tl.minimum(keys, first + BLOCK_M + (keys - queries))
        whole = tl.maximum(tl.minimum(keys, first + (keys - queries) + 1), 0)
    else:
        last = tl.zeros((BLOCK_M,), tl.int32) + (keys - 1)
        end = keys
        whole = keys
    return last, end, whole // BLOCK_N * BLOCK_N


@triton.jit
def flash(
    out_ptr, q_ptr, k_ptr, v_ptr,
    q_batch, q_head, q_row, q_column, k_batch, k_head, k_row, k_column, v_batch, v_head, v_row, v_column,
    heads, queries, keys, scale,
    DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """out, contiguous, of a block of BLOCK_M queries a program; scale is log2(e) times that of the operator."""
    blocks = tl.cdiv(queries, BLOCK_M)
    number = tl.program_id(0) // blocks
    # The last queries, which see the most keys, first.
    block = blocks - 1 - tl.program_id(0) % blocks
    batch, head = (number // heads).to(tl.int64), (number % heads).to(tl.int64)
    row = block * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, DIM)
    there = (row < queries)[:, None]
    at = q_ptr + batch * q_batch + head * q_head + row.to(tl.int64)[:, None] * q_row + columns[None, :] * q_column
    q = tl.load(at, mask=there, other=0.0)
    k_ptr += batch * k_batch + head * k_head
    v_ptr += batch * v_batch + head * v_head
    last, end, whole = _span(row, block * BLOCK_M, queries, keys, BLOCK_M, BLOCK_N, CAUSAL)
    acc = tl.zeros((BLOCK_M, DIM), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    acc, total, top = _tiles(
        acc, total, top, q, k_ptr, v_ptr, k_row, k_column, v_row, v_column, 0, whole, keys, last, scale,
        DIM, BLOCK_N, False, STAGES,
    )  # fmt: skip
    acc, total, top = _tiles(
        acc, total, top, q, k_ptr, v_ptr, k_row, k_column, v_row, v_column, whole, end, keys, last, scale,
        DIM, BLOCK_N, True, STAGES,
    )  # fmt: skip
    # Rows that see no key are 0.
    out = tl.where((last >= 0)[:, None], acc / total[:, None], 0.0)
    place = out_ptr + (number.to(tl.int64) * queries + row)[:, None] * DIM + columns[None, :]
    tl.store(place, out.to(out_ptr.dtype.element_ty), mask=there)
