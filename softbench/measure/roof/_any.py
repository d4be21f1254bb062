"""The roof of any streams, by one kernel; each thread moves one 16-byte vector of every stream of the case's size.

Streams of another size, as a weight, are moved by programs of their own, if these are `OTHERS` of the bytes or more.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from softbench.cases import operators
from softbench.cases.operators.outputs import STREAM_BYTES
from softbench.contract import Unsupported
from softbench.model import Case, Tensor

VECTOR_BYTES = 16
READ_VECTORS = 4
"""Of each thread where nothing is written."""
OTHERS = 0.005
TURNS = 4
"""Vectors that a thread reads of each of these, at most."""
PERIOD = 8192
"""Words: the step in which what is read of a stream and what is left out take turns."""


@dataclass(frozen=True)
class Moved:
    """Streams of a case's size, and what else is moved.

    reads   the place of each among the operator's inputs, and the bytes of its elements
    writes  the dtype of each
    share   of the first one that a right kernel must read
    over    what is written, by number, that takes the memory of an input -> the input
    beside  what is read besides, of another shape: its place, and its words of 8 bytes
    narrow  the bytes of what is written besides, of another shape
    """

    reads: tuple[tuple[int, int], ...]
    writes: tuple[str, ...]
    share: float = 1.0
    over: tuple[tuple[int, int], ...] = ()
    beside: tuple[tuple[int, int], ...] = ()
    narrow: int = 0

    @property
    def part(self) -> int:
        """Of each `PERIOD` words of the first stream, those that are read: a multiple of 16, so that loads stay whole."""
        return min(PERIOD, max(1, round(self.share * PERIOD / 16)) * 16)

    @property
    def together(self) -> list[int]:
        """What the written streams are made of: all that is read with elements of one size.

        It is that of a written stream, first of one that overwrites an input, or, if none is read, that of the first input.
        """
        written = [STREAM_BYTES[self.writes[at]] for at in [*dict(self.over), *range(len(self.writes))]]
        read = dict(self.reads)
        size = next((size for size in written if size in read.values()), self.reads[0][1])
        return [place for place in read if written and read[place] == size]

    @property
    def alone(self) -> list[int]:
        """What else is read: an integer per program is all that is kept of it, as often as makes up for what is narrow."""
        return [place for place, _ in self.reads if place not in self.together]

    @property
    def all_sizes(self) -> list[int]:
        """The bytes of an element of each stream of the case's size."""
        return [*(size for _, size in self.reads), *(STREAM_BYTES[dtype] for dtype in self.writes)]

    @property
    def has_sink(self) -> bool:
        """Whether programs leave integers, of what no written element is made of."""
        return bool(self.alone or self.beside or self.narrow)


def moved(case: Case) -> Moved:
    """The streams of the case's operator."""
    operator, declared, own = operators.get(case.operator), operators.of_file(case.operator), operators.overwritten(case.operator)
    specs = operator.output_specs(case)
    reads = tuple((n, s.item_bytes(case)) for n, s in enumerate(operator.reads) if s.shape == "case")
    written = [n for n, s in enumerate(operator.writes) if s.shape == "case"]
    share = declared.needed_share(case) if declared else 1.0
    over = tuple((at, own[n]) for at, n in enumerate(written) if n in own)
    found = Moved(reads, tuple(specs[n].dtype for n in written), share, over)
    others = [(n, s.read_bytes(case)) for n, s in enumerate(operator.reads) if s.shape != "case"]
    narrow = sum(spec.nbytes for n, spec in enumerate(specs) if n not in written)
    is_much = narrow + sum(size for _, size in others) >= OTHERS * sum(found.all_sizes) * case.elements > 0
    beside = tuple((n, size // 8) for n, size in others if is_much and size >= 8)
    return replace(found, beside=beside, narrow=narrow if is_much or found.alone else 0)


def dense(case: Case) -> Moved:
    """As `moved`; raises Unsupported for a view but a transposed one, whose streams are moved in the order of memory."""
    found = moved(case) if case.layout in ("contiguous", "transposed") else None
    if found is None or (case.layout == "transposed" and (found.alone or found.part < PERIOD)):
        raise Unsupported(f"the roof moves contiguous memory, not the layout {case.layout}")
    return found


def compile_options(threads: int) -> dict[str, Any]:
    """Triton's options for a block of this many threads; 3.9 warns if fusion is left to its default."""
    return {"num_warps": threads // 32, "enable_fp_fusion": True}


def launcher(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(*inputs) -> what is written, of the case's shape, and integers of each program if there is a sink.

    Where the operator overwrites an input so does the launch, with every bit changed: to move nothing would be seen.
    threads  per block, a multiple of 32; each moves 16 bytes of every stream, at int64 offsets
    hint     "plain", or "evict_first": evict-first loads with streaming (.cs) stores
    Raises Unsupported as `dense`.
    """
    import torch

    from . import _kernels

    streams = dense(case)
    dtypes, over = [getattr(torch, dtype) for dtype in streams.writes], dict(streams.over)
    programs, words, constants = layout(case, streams, threads, hint)
    scale, counts, options = scale_of(case, streams), tuple(count for _, count in streams.beside), compile_options(threads)
    kept = (programs if streams.alone else constants["OTHERS"], constants["COPIES"])

    def launch(*inputs: Any) -> Any:
        moving = [inputs[over[n]] if n in over else torch.empty_like(inputs[0], dtype=dtype) for n, dtype in enumerate(dtypes)]
        sink = torch.empty(kept, dtype=torch.int64, device=inputs[0].device) if streams.has_sink else None
        found = (*moving, *([] if sink is None else [sink]))
        if programs:
            groups = [tuple(lying(inputs[n], scale) for n in group) for group in (streams.together, streams.alone)]
            beside, written = tuple(whole(inputs[n]) for n, _ in streams.beside), tuple(lying(y, scale) for y in moving)
            _kernels.move_words[(programs,)](written, *groups, beside, counts, sink, words, **constants, **options)
        return found if len(found) > 1 else found[0]

    return launch


def cubins(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    """The kernel of a case with 16-byte aligned buffers, for sm_90a; nothing for an empty case."""
    streams = dense(case)
    if case.elements == 0:
        return
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from . import _kernels

    (_, words, constants), scale = layout(case, streams, threads, hint), scale_of(case, streams)
    written = [STREAM_BYTES[dtype] for dtype in streams.writes]
    groups = written, *([dict(streams.reads)[n] for n in group] for group in (streams.together, streams.alone))
    pointers = [tuple(f"*i{8 * size * scale}" for size in group) for group in groups]
    counts = tuple("i32" for _ in streams.beside)
    if not streams.has_sink:
        constants = {"sink": None, **constants}
    types = [*pointers, tuple("*i64" for _ in counts), counts, "*i64", "i32" if words < 2**31 else "i64"]
    signature = dict(zip(_kernels.move_words.arg_names, types, strict=False))
    places = (*groups, counts)
    aligned: list[tuple[int, ...]] = [(number, n) for number, group in enumerate(places) for n in range(len(group))]
    aligned += [*([(5,)] if streams.has_sink else []), *([(6,)] if words % 16 == 0 else [])]
    source = ASTSource(
        _kernels.move_words,
        signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        attrs={path: [["tt.divisibility", 16]] for path in aligned},
    )
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=compile_options(threads))
    yield "move_words", built.asm["cubin"]


def layout(case: Case, streams: Moved, threads: int, hint: str) -> tuple[int, int, dict[str, Any]]:
    """Programs, words of a stream of the case's size, the kernel's constants."""
    sizes, scale = streams.all_sizes, scale_of(case, streams)
    vectors = 1 if streams.writes else READ_VECTORS
    words, block = case.elements // scale, threads * vectors * VECTOR_BYTES // (max(sizes) * scale)
    most, turn = max((count for _, count in streams.beside), default=0), threads * VECTOR_BYTES // 8
    main = -(-words // block)
    others = max(-(-most // (turn * TURNS)), 0 if streams.alone else -(-streams.narrow // (8 * turn))) if main else 0
    each = -(-most // max(1, 4 * others)) * 4  # whole sectors
    copies = max(1, round(streams.narrow / 8 / max(1, others + (main if streams.alone else 0))))
    constants = {"BLOCK": block, "WHOLE": words % block == 0, "STREAM": hint == "evict_first", "COPIES": copies}
    constants |= {"LANES": _power(copies), "OTHERS": others, "EACH": each, "STEP": min(turn, _power(each))}
    return main + others, words, constants | {"PART": streams.part, "PERIOD": PERIOD, "FLIP": bool(streams.over)}


def scale_of(case: Case, streams: Moved) -> int:
    """Elements of a word: as many as divide a stream, if that of the narrowest has at most 4 bytes and of the widest 8."""
    sizes = streams.all_sizes
    most = min(max(1, 4 // min(sizes)), max(1, 8 // max(sizes)))
    return next(scale for scale in (4, 2, 1) if scale <= most and case.elements % scale == 0)


def _power(number: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(0, number - 1).bit_length()


def fault(inputs: Sequence[Tensor], outputs: tuple[Any, ...], case: Case, *, is_folded: bool) -> str:
    """What is wrong with what a launch returned; "" if every bit of it follows from the inputs' bits.

    is_folded  whether what is read alone was xored, as on a GPU, or added up
    """
    import torch

    streams = moved(case)
    count = len(streams.writes) + streams.has_sink
    if len(outputs) != count:
        return f"the roof wrote {len(outputs)} outputs where there are {count}"
    scale = scale_of(case, streams) if is_folded else 1
    if streams.writes:
        words = lying if is_folded else seen
        first, *rest = (words(inputs[n], scale) for n in streams.together)
        if is_folded and streams.part < PERIOD:
            at = torch.arange(first.numel(), device=first.device)
            first = torch.where(at % PERIOD < streams.part, first, 0)
        made = functools.reduce(torch.bitwise_xor, rest, first)
        made = ~made if streams.over else made
        written = zip(outputs, streams.writes, strict=False)
        if not all(torch.equal(words(y, scale), fitted(made, scale * STREAM_BYTES[dtype])) for y, dtype in written):
            return "an output is not made of what was read"
    if not streams.has_sink:
        return ""
    unread = "not all that is read alone was read"
    beside = [whole(inputs[n]) for n, _ in streams.beside]
    if not is_folded:
        right = sums([*(words_of(inputs[n]) for n in streams.alone), *beside])
        return "" if torch.equal(outputs[-1], right) else unread
    read = [*(seen(inputs[n], scale) for n in streams.alone), *beside]
    kept = outputs[-1]
    if kept.nbytes < streams.narrow / 2 or not torch.equal(kept, kept[:, :1].expand_as(kept)):
        return "what stands for the narrow outputs is too little or differs"
    totals = [_folded(x.to(torch.int64)) for x in (*read, kept[:, 0])]
    return "" if functools.reduce(operator.xor, totals) == 0 else unread


def fitted(x: Tensor, size: int) -> Tensor:
    """Integers of `size` bytes, as the kernel makes them."""
    width = x.element_size()
    while width > size:
        width //= 2
        x = x ^ (x >> 8 * width)
    return x.to(word(size))


def sums(read: Sequence[Tensor]) -> Tensor:
    """What stands for streams that are read alone on a CPU: the sum of each."""
    import torch

    found = [x.sum(dtype=torch.int64).view(1) for x in read] or [torch.zeros(1, dtype=torch.int64)]
    return found[0] if len(found) == 1 else torch.cat(found)


def words_of(x: Tensor) -> Tensor:
    """Integers that a CPU adds up fast: words of 8 bytes if possible, else of an element."""
    return seen(x, 8 // x.element_size()) if x.is_contiguous() and x.nbytes % 8 == 0 else bits(x)


def bits(x: Tensor) -> Tensor:
    """The bits of each element, where they lie."""
    return x.view(word(x.element_size()))


def whole(x: Tensor) -> Tensor:
    """The whole words of 8 bytes of a contiguous tensor."""
    import torch

    return x.view(-1).view(torch.uint8)[: x.nbytes // 8 * 8].view(torch.int64)


def lying(x: Tensor, scale: int) -> Tensor:
    """The bits of a dense tensor as they lie in memory, as integers of `scale` elements."""
    return seen(x if x.is_contiguous() else x.mT, scale)


def seen(x: Tensor, scale: int) -> Tensor:
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
