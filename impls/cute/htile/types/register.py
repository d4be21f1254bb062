"""What a thread holds in registers: a tile, and a tile of 16-byte vectors."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32


class RegTile:
    """A tensor in registers of any shape, all of whose indices must be known when the kernel is compiled."""

    def __init__(self, dtype: type[cutlass.Numeric], shape: object) -> None:
        self.tensor = cute.make_rmem_tensor(shape, dtype)


class VectorRegTile(RegTile):
    """`count` vectors of `width` elements: what a thread has of its row."""

    def __init__(self, dtype: type[cutlass.Numeric], width: int, count: int) -> None:
        super().__init__(dtype, (width, count))

    def vector(self, turn: int) -> cute.Tensor:
        """Vector number `turn`: (width,) in the tile's dtype."""
        return self.tensor[None, turn]

    def values(self, turn: int) -> cute.TensorSSA:
        """Vector number `turn` as float32 values."""
        return self.vector(turn).load().to(Float32)

    def values_anew(self, turn: int) -> cute.TensorSSA:
        """The same, converted anew. Between two uses a compiler keeps float32 values, twice what the tile takes in 16
        bits; it does not see that these are the same."""
        vector = self.vector(turn)
        if vector.element_type.width == 32:
            return vector.load()
        words, hidden = cute.recast_tensor(vector, Int32), cute.make_rmem_tensor_like(vector)
        copies = cute.recast_tensor(hidden, Int32)
        for i in range(cute.size(words)):
            copies[i] = cute.arch.inline_ptx(
                "mov.b32 {$w0}, {$r0};", write_only_types=[Int32], read_only_args=[words[i]]
            )
        return hidden.load().to(Float32)


def rounded(values: cute.TensorSSA, dtype: type[cutlass.Numeric]) -> cute.Tensor:
    """float32 values as a tensor of a dtype in registers."""
    tensor = cute.make_rmem_tensor(values.shape, dtype)
    tensor.store(values.to(dtype))
    return tensor
