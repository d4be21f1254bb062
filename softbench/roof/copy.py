"""The copy roof: exactly one 16-byte vector a thread, the best of many Triton forms at every size that was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softbench.contract import Unsupported, implementation
from softbench.model import DTYPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from softbench.model import Case

VECTOR_BYTES = 16


def check(case: Case) -> None:
    """Raises Unsupported for what is no plain copy."""
    if DTYPE_BYTES[case.out_dtype] != DTYPE_BYTES[case.dtype]:
        raise Unsupported(f"a copy writes as many bytes as it reads, not {case.dtype} to {case.out_dtype}")
    if case.layout != "contiguous":
        raise Unsupported(f"the roof copies contiguous memory, not the layout {case.layout}")


def layout(case: Case, threads: int, hint: str) -> tuple[int, int, dict[str, Any]]:
    """Bytes of a word (the largest of 4, 2 and 1 that divides the buffer), number of words, the kernel's constants."""
    total_bytes = case.elements * DTYPE_BYTES[case.dtype]
    size = next(size for size in (4, 2, 1) if total_bytes % size == 0)
    words, block = total_bytes // size, threads * VECTOR_BYTES // size
    return size, words, {"BLOCK": block, "WHOLE": words % block == 0, "STREAM": hint == "evict_first"}


def compile_options(threads: int) -> dict[str, Any]:
    """Triton's options for a block of so many threads; 3.9 warns where fusion is left to its default."""
    return {"num_warps": threads // 32, "enable_fp_fusion": True}


@implementation(
    operator="copy",
    requires=["cuda>=sm_80", "triton"],
    params={"threads": [128, 256, 512], "hint": ["plain", "evict_first"]},
)
def copy(case: Case, threads: int, hint: str) -> Callable[[Any], Any]:
    """launch(x) -> y of x's shape and out_dtype, holding x's bytes; int64 offsets.

    threads  of a block, a multiple of 32; each moves 16 bytes
    hint     "plain", or "evict_first": evict-first loads with streaming (.cs) stores
    Raises Unsupported for views, and where an output element has another size than an input element.
    """
    check(case)
    import torch

    from ._copy_kernel import copy_words

    out_dtype = getattr(torch, case.out_dtype)
    if case.elements == 0:
        return lambda x: torch.empty_like(x, dtype=out_dtype)
    size, words, constants = layout(case, threads, hint)
    word = {4: torch.int32, 2: torch.int16, 1: torch.int8}[size]
    program = copy_words[(-(-words // constants["BLOCK"]),)]
    options = compile_options(threads)

    def launch(x: Any) -> Any:
        y = torch.empty_like(x, dtype=out_dtype)
        program(y.view(-1).view(word), x.view(-1).view(word), words, **constants, **options)
        return y

    return launch


@copy.cubins
def compiled(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    """The kernel of a case with 16-byte aligned buffers, for sm_90a; nothing for an empty case."""
    check(case)
    if case.elements == 0:
        return
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ._copy_kernel import copy_words

    size, words, constants = layout(case, threads, hint)
    pointer = f"*i{8 * size}"
    signature = {"y_ptr": pointer, "x_ptr": pointer, "words": "i32" if words < 2**31 else "i64"}
    aligned = [0, 1] + [2] * (words % 16 == 0)
    source = ASTSource(
        copy_words,
        signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        attrs={(index,): [["tt.divisibility", 16]] for index in aligned},
    )
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=compile_options(threads))
    yield copy_words.__name__, built.asm["cubin"]
