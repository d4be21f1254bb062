"""The roof of any streams of a case's size, by one kernel; each thread moves one 16-byte vector of every stream."""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from softbench.cases import operators
from softbench.cases.operators.outputs import STREAM_BYTES
from softbench.cases.operators.streams import ROOFS
from softbench.contract import Unsupported
from softbench.model import Case, Tensor

VECTOR_BYTES = 16
READ_VECTORS = 4
"""Of each thread where nothing is written."""
PERIOD = 8192
"""Words: the step in which what is read of a stream and what is left out take turns."""
COUNTS = {name: counts for counts, name in ROOFS.items()}
"""Sets whose streams, read and written, all have the case's size and dtype."""


@dataclass(frozen=True)
class Moved:
    """Streams of a case's size.

    reads   the place of each among the operator's inputs, and the bytes of its elements
    writes  the dtype of each
    share   of the first one that a right kernel must read
    over    what is written, by number, that takes the memory of an input -> the input
    narrow  the bytes of what is written besides, of another shape
    """

    reads: tuple[tuple[int, int], ...]
    writes: tuple[str, ...]
    share: float = 1.0
    over: tuple[tuple[int, int], ...] = ()
    narrow: int = 0

    @property
    def part(self) -> int:
        """Of each `PERIOD` words of the first stream, those that are read: a multiple of 16, so that loads stay whole."""
        return min(PERIOD, max(1, round(self.share * PERIOD / 16)) * 16)

    @property
    def together(self) -> list[int]:
        """What is read of the written elements' size: the written streams are made of these."""
        size = STREAM_BYTES[self.writes[0]] if self.writes else 0
        return [place for place, own in self.reads if own == size]

    @property
    def alone(self) -> list[int]:
        """What else is read: an integer per program is all that is kept of it, as often as makes up for what is narrow."""
        return [place for place, _ in self.reads if place not in self.together]

    @property
    def sizes(self) -> dict[int, int]:
        return dict(self.reads)


def moved(name: str, case: Case) -> Moved:
    """The streams of a set: of `streams`, those of the case's operator, which is of a file.

    Raises Unsupported where nothing that is written is as wide as what is read.
    """
    if name in COUNTS:
        reads, writes = COUNTS[name]
        found = Moved(tuple((n, STREAM_BYTES[case.dtype]) for n in range(reads)), (case.out_dtype,) * writes)
    else:
        declared = operators.of_file(case.operator)
        if declared is None:
            raise Unsupported(f"the roof of {case.operator} has a name of its own")
        whole = tuple((n, s.item_bytes(case)) for n, s in enumerate(declared.reads) if s.shape == "case")
        written = [n for n, s in enumerate(declared.writes) if s.shape == "case"]
        dtypes = tuple(declared.writes[n].written(case).dtype for n in written)
        over = tuple((at, declared.over[n]) for at, n in enumerate(written) if n in declared.over)
        narrow = sum(s.written(case).nbytes for s in declared.writes if s.shape != "case")
        found = Moved(whole, dtypes, declared.needed_share(case), over, narrow)
    if found.writes and (not found.together or len({STREAM_BYTES[dtype] for dtype in found.writes}) > 1):
        widths = f"of {case.operator} from {case.dtype} to {case.out_dtype}"
        raise Unsupported(f"no stream that is read has elements as wide as those that are written: {widths}")
    return found


def check_layout(name: str, case: Case) -> None:
    """Raises Unsupported for a view but a transposed one, whose streams of one dtype all lie alike."""
    if case.layout != "contiguous" and (case.layout != "transposed" or name not in COUNTS):
        raise Unsupported(f"the roof moves contiguous memory, not the layout {case.layout}")


def compile_options(threads: int) -> dict[str, Any]:
    """Triton's options for a block of this many threads; 3.9 warns if fusion is left to its default."""
    return {"num_warps": threads // 32, "enable_fp_fusion": True}


def launcher(name: str, case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(*inputs) -> what is written, of the case's shape, and integers of each program if a stream is read alone.

    Where the operator overwrites an input so does the launch, with every bit changed: to move nothing would be seen.
    name     of the set
    threads  per block, a multiple of 32; each moves 16 bytes of every stream, at int64 offsets
    hint     "plain", or "evict_first": evict-first loads with streaming (.cs) stores
    Raises Unsupported as `moved` and `check_layout`.
    """
    check_layout(name, case)
    import torch

    from . import _kernels

    streams = moved(name, case)
    dtypes, over = [getattr(torch, dtype) for dtype in streams.writes], dict(streams.over)
    words, scale, constants = layout(case, streams, threads, hint)
    programs = -(-words // constants["BLOCK"])
    options = compile_options(threads)

    def launch(*inputs: Any) -> Any:
        written = [inputs[over[n]] if n in over else torch.empty_like(inputs[0], dtype=dtype) for n, dtype in enumerate(dtypes)]
        kept = (programs, constants["COPIES"])
        sinks = [torch.empty(kept, dtype=torch.int64, device=inputs[0].device)] if streams.alone else []
        found = (*written, *sinks)
        if programs:
            together, alone = (tuple(lying(inputs[n], scale) for n in group) for group in (streams.together, streams.alone))
            _kernels.move_words[(programs,)](
                tuple(lying(y, scale) for y in written), together, alone, sinks[0] if sinks else None, words, **constants, **options
            )
        return found if len(found) > 1 else found[0]

    return launch


def cubins(name: str, case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    """The kernel of a case with 16-byte aligned buffers, for sm_90a; nothing for an empty case."""
    check_layout(name, case)
    if case.elements == 0:
        return
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from . import _kernels

    streams = moved(name, case)
    words, scale, constants = layout(case, streams, threads, hint)
    written = [STREAM_BYTES[dtype] for dtype in streams.writes]
    groups = written, *([streams.sizes[n] for n in group] for group in (streams.together, streams.alone))
    pointers = [tuple(f"*i{8 * size * scale}" for size in group) for group in groups]
    if not streams.alone:
        constants = {"sink": None, **constants}
    types = [*pointers, "*i64", "i32" if words < 2**31 else "i64"]
    signature = dict(zip(_kernels.move_words.arg_names, types, strict=False))
    aligned: list[tuple[int, ...]] = [(number, n) for number, group in enumerate(groups) for n in range(len(group))]
    aligned += [*([(3,)] if streams.alone else []), *([(4,)] if words % 16 == 0 else [])]
    source = ASTSource(
        _kernels.move_words,
        signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        attrs={path: [["tt.divisibility", 16]] for path in aligned},
    )
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=compile_options(threads))
    yield "move_words", built.asm["cubin"]


def layout(case: Case, streams: Moved, threads: int, hint: str) -> tuple[int, int, dict[str, Any]]:
    """Words of a stream, elements of a word, the kernel's constants.

    As many elements as divide a stream are one word, if that of the narrowest stream has at most 4 bytes and of the widest 8.
    """
    sizes = [*streams.sizes.values(), *(STREAM_BYTES[dtype] for dtype in streams.writes)]
    most = min(max(1, 4 // min(sizes)), max(1, 8 // max(sizes)))
    scale = next(scale for scale in (4, 2, 1) if scale <= most and case.elements % scale == 0)
    vectors = 1 if streams.writes else READ_VECTORS
    words, block = case.elements // scale, threads * vectors * VECTOR_BYTES // (max(sizes) * scale)
    copies = max(1, round(streams.narrow / 8 / max(1, -(-words // block))))
    constants = {"BLOCK": block, "WHOLE": words % block == 0, "STREAM": hint == "evict_first", "COPIES": copies}
    constants["LANES"] = 1 << (copies - 1).bit_length()
    return words, scale, constants | {"PART": streams.part, "PERIOD": PERIOD, "FLIP": bool(streams.over)}


def fault(name: str, inputs: Sequence[Tensor], outputs: tuple[Any, ...], case: Case, *, is_folded: bool) -> str:
    """What is wrong with what a launch returned; "" if every bit of it follows from the inputs' bits.

    is_folded  whether what is read alone was xored, as on a GPU, or added up
    """
    import torch

    streams = moved(name, case)
    count = len(streams.writes) + bool(streams.alone)
    if len(outputs) != count:
        return f"the roof wrote {len(outputs)} outputs where there are {count}"
    if streams.writes:
        scale = layout(case, streams, 128, "plain")[1] if is_folded else 1
        first, *rest = (seen(inputs[n], scale) for n in streams.together)
        if is_folded and streams.part < PERIOD:
            at = torch.arange(first.numel(), device=first.device)
            first = torch.where(at % PERIOD < streams.part, first, 0)
        made = functools.reduce(torch.bitwise_xor, rest, first)
        made = ~made if streams.over else made
        if not all(torch.equal(seen(y, scale), made) for y in outputs[: len(streams.writes)]):
            return "an output is not made of what was read"
    read = [inputs[n] for n in streams.alone]
    if not read:
        return ""
    if not is_folded:
        right = torch.stack([seen(x).sum(dtype=torch.int64) for x in read])
        return "" if torch.equal(outputs[-1], right) else "not all that is read alone was read"
    scale, kept = layout(case, streams, 128, "plain")[1], outputs[-1]
    if kept.nbytes < streams.narrow / 2 or not torch.equal(kept, kept[:, :1].expand_as(kept)):
        return "what stands for the narrow outputs is too little or differs"
    totals = [_folded(x.to(torch.int64)) for x in (*(seen(x, scale) for x in read), kept[:, 0])]
    return "" if functools.reduce(operator.xor, totals) == 0 else "not all that is read alone was read"


def lying(x: Tensor, scale: int) -> Tensor:
    """The bits of a dense tensor as they lie in memory, as integers of `scale` elements."""
    return seen(x if x.is_contiguous() else x.mT, scale)


def seen(x: Tensor, scale: int = 1) -> Tensor:
    """The bits of a tensor, in order, as integers of `scale` elements."""
    return x.contiguous().view(-1).view(word(x.element_size() * scale))


def word(size: int) -> Any:
    """The integer type of `size` bytes."""
    import torch

    return {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]


def _folded(x: Tensor) -> int:
    import torch

    while len(x) > 1:
        half = len(x) // 2
        x = torch.cat([x[:half] ^ x[half : 2 * half], x[2 * half :]])
    return int(x.sum())
