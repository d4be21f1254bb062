"""Moving vectors of 16 bytes: global -> shared (asynchronous), shared -> registers, registers -> global."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync

from .config import VECTOR_BYTES, ElementwiseTileConfig


def thread_tiling(config: ElementwiseTileConfig, dtype: type[cutlass.Numeric]) -> cute.TiledCopy:
    """A tiled copy by cp.async.cg in which neighbouring threads of a row take neighbouring vectors.

    `.cg` leaves L1 out: the row is read once, and L1 is where shared memory lives.
    """
    operation = cpasync.CopyG2SOp(cache_mode=cute.nvgpu.LoadCacheMode.GLOBAL)
    atom = cute.make_copy_atom(operation, dtype, num_bits_per_copy=VECTOR_BYTES * 8)
    threads = cute.make_ordered_layout((config.rows, config.threads_per_row), order=(1, 0))
    return cute.make_tiled_copy_tv(atom, threads, cute.make_layout((1, config.vector)))


def load_vector(source: cute.Tensor) -> cute.TensorSSA:
    """One vector from shared memory as float32 values."""
    registers = cute.make_rmem_tensor_like(source)
    cute.autovec_copy(source, registers)
    return registers.load().to(cutlass.Float32)


def store_vector(values: cute.TensorSSA, destination: cute.Tensor) -> None:
    """float32 values, rounded to the destination's dtype, to global memory in 16-byte stores."""
    registers = cute.make_rmem_tensor_like(destination)
    registers.store(values.to(destination.element_type))
    cute.autovec_copy(registers, destination)


def fill_vector(destination: cute.Tensor, value: float) -> None:
    """One vector of shared memory set to `value`."""
    registers = cute.make_rmem_tensor_like(destination)
    registers.fill(destination.element_type(value))
    cute.autovec_copy(registers, destination)
