"""Shared by the roofs: streams of a case's size; each thread moves exactly one 16-byte vector of every stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softbench.contract import Unsupported
from softbench.model import DTYPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from softbench.model import Case

VECTOR_BYTES = 16


@dataclass(frozen=True)
class Roof:
    """A kernel of `_kernels`, and the streams that it writes; it reads the operator's first `reads` inputs."""

    kernel: str
    reads: int
    writes: int

    def launcher(self, case: Case, threads: int, hint: str) -> Callable[..., Any]:
        """launch(*inputs) -> `writes` tensors of the case's shape and out_dtype (the tensor itself for one).

        threads  per block, a multiple of 32; each moves 16 bytes of every stream, at int64 offsets
        hint     "plain", or "evict_first": evict-first loads with streaming (.cs) stores
        Raises Unsupported for views but a transposed one, and if output elements have another size than input elements.
        """
        check(case)
        import torch

        from . import _kernels

        out_dtype = getattr(torch, case.out_dtype)

        def outputs(x: Any) -> Any:
            found = tuple(torch.empty_like(x, dtype=out_dtype) for _ in range(self.writes))
            return found if self.writes > 1 else found[0]

        if case.elements == 0:
            return lambda x, *rest: outputs(x)
        size, words, constants = layout(case, threads, hint)
        word = {4: torch.int32, 2: torch.int16, 1: torch.int8}[size]
        program = getattr(_kernels, self.kernel)[(-(-words // constants["BLOCK"]),)]
        options = compile_options(threads)

        def launch(*inputs: Any) -> Any:
            found = outputs(inputs[0])
            written = found if self.writes > 1 else (found,)
            lying = (t if t.is_contiguous() else t.mT for t in (*written, *inputs[: self.reads]))
            streams = [t.view(-1).view(word) for t in lying]
            program(*streams, words, **constants, **options)
            return found

        return launch

    def cubins(self, case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
        """The kernel of a case with 16-byte aligned buffers, for sm_90a; nothing for an empty case."""
        check(case)
        if case.elements == 0:
            return
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        from . import _kernels

        kernel = getattr(_kernels, self.kernel)
        size, words, constants = layout(case, threads, hint)
        streams = self.reads + self.writes
        signature = dict.fromkeys(kernel.arg_names[:streams], f"*i{8 * size}")
        signature["words"] = "i32" if words < 2**31 else "i64"
        aligned = [*range(streams), *([streams] if words % 16 == 0 else [])]
        source = ASTSource(
            kernel,
            signature=signature | dict.fromkeys(constants, "constexpr"),
            constexprs=constants,
            attrs={(index,): [["tt.divisibility", 16]] for index in aligned},
        )
        built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=compile_options(threads))
        yield kernel.__name__, built.asm["cubin"]


def check(case: Case) -> None:
    """Raises Unsupported for a case that is not a plain movement of memory."""
    if DTYPE_BYTES[case.out_dtype] != DTYPE_BYTES[case.dtype]:
        raise Unsupported(f"a copy writes as many bytes as it reads, not {case.dtype} to {case.out_dtype}")
    if case.layout != "transposed":
        check_layout(case)


def check_layout(case: Case) -> None:
    """Raises Unsupported for a view."""
    if case.layout != "contiguous":
        raise Unsupported(f"the roof moves contiguous memory, not the layout {case.layout}")


def layout(case: Case, threads: int, hint: str) -> tuple[int, int, dict[str, Any]]:
    """Bytes of a word (the largest of 4, 2 and 1 that divides a stream), words of a stream, the kernel's constants."""
    total_bytes = case.elements * DTYPE_BYTES[case.dtype]
    size = next(size for size in (4, 2, 1) if total_bytes % size == 0)
    words, block = total_bytes // size, threads * VECTOR_BYTES // size
    return size, words, {"BLOCK": block, "WHOLE": words % block == 0, "STREAM": hint == "evict_first"}


def compile_options(threads: int) -> dict[str, Any]:
    """Triton's options for a block of this many threads; 3.9 warns if fusion is left to its default."""
    return {"num_warps": threads // 32, "enable_fp_fusion": True}
