"""Makes Triton's interpreter round and multiply as a GPU does."""

from typing import Any


def correct() -> None:
    """Round conversions from float32 to bfloat16 to the nearest even, as compiled code does, and multiply numbers in tl.dot.

    Triton 3.6 to 3.9 truncate instead (`cast_impl` passes no rounding mode), which lowers every row sum of a softmax by 0.3 %, so
    that a right kernel would be INCORRECT. Triton 3.9 passes the bits of bfloat16 to numpy as uint16, so that tl.dot multiplies
    integers.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    cut_off, of_bits = builder.cast_impl, builder.create_dot

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        if (source.dtype.scalar, target.scalar) != (tl.float32, tl.bfloat16):
            return cut_off(self, source, target)
        return interpreter.TensorHandle(_bfloat16_bits(source.data), target.scalar)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        if a.dtype.scalar == tl.bfloat16:
            a, b = (self.cast_impl(x, tl.float32) for x in (a, b))
        return of_bits(self, a, b, *rest)

    builder.cast_impl, builder.create_dot = cast_impl, create_dot


def _bfloat16_bits(values: Any) -> Any:
    """The nearest bfloat16 of each float32, as uint16; a NaN stays one."""
    import numpy as np

    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    nearest = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, nearest).astype(np.uint16).reshape(np.shape(values))
