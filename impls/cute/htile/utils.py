"""Small things that several parts need."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64

from .config import VECTOR_BYTES


def elem_pointer(tensor: cute.Tensor, coordinate: tuple) -> cute.Pointer:
    """Where an element lies, with 64-bit arithmetic wherever the layout's strides have 64 bits."""
    return tensor.iterator + cute.crd2idx(coordinate, tensor.layout)


def expand(vector: cute.Tensor, rows: Int64) -> cute.Tensor:
    """(columns,) seen as (rows, columns), every row the same memory: a weight takes a matrix's tiles."""
    layout = cute.make_layout((rows, vector.shape[0]), stride=(0, 1))
    return cute.make_tensor(vector.iterator, layout)


def store_shared_remote(target: cute.Tensor, values: tuple[Float32, ...], barrier: cute.Pointer, rank: Int32) -> None:
    """Store 1, 2 or 4 float32 values at `target`, of this CTA's shared memory, in CTA `rank` of the cluster.

    The mbarrier at `barrier` there learns of the bytes when they have arrived.
    """
    pointer = target.iterator.align(4 * len(values))
    bits = tuple(value.bitcast(Int32) for value in values)
    cute.arch.store_async_dsmem(pointer, bits if len(bits) > 1 else bits[0], barrier, rank)


def fake_matrix(dtype: type[cutlass.Numeric], rows: object, columns: int, aligned: bool) -> cute.Tensor:
    """A (rows, columns) matrix to compile for, of any row stride; `aligned`: rows start on 16 bytes."""
    per_vector = VECTOR_BYTES * 8 // dtype.width if aligned else 1
    stride = (cute.sym_int64(divisibility=per_vector), 1)
    align = VECTOR_BYTES if aligned else dtype.width // 8
    return cute.runtime.make_fake_tensor(dtype, (rows, columns), stride=stride, assumed_align=align)


def fake_vector(dtype: type[cutlass.Numeric], elements: object, align: int) -> cute.Tensor:
    """A dense (elements,) vector to compile for, of `align` bytes' alignment."""
    return cute.runtime.make_fake_tensor(dtype, (elements,), stride=(1,), assumed_align=align)
