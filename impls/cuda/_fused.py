"""Host side of `kernels/softmax_fused.cu`: how a matrix is cut into chunks, and the launch of its three kernels."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from softbench import Unsupported

from . import _driver, _nvrtc

SOURCE = "softmax_fused.cu"
KERNELS = ("block_statistics", "global_reduce", "normalise")
C_TYPES = {"float16": "Half", "bfloat16": "Bfloat", "float32": "float"}
ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
VECTOR_BYTES = 16
THREADS = 256
REDUCE_THREADS = 1024
MOST_VECTORS_A_THREAD = 4  # UNROLL of the kernels
# At most 16 partial results for each of the 1024 threads that merge a row.
MOST_CHUNKS_A_ROW = 16 * REDUCE_THREADS
# The kernels number chunks with 32 bits, and a grid has no more than 2**31 - 1 blocks.
MOST_CHUNKS = 2**31 - 1
# The structure `Arguments` of the kernels: four pointers, three sizes of 64 bits, five of 32, padding.
ARGUMENTS = struct.Struct("@QQQQqqqIIIII4x")


@dataclass(frozen=True)
class Plan:
    """How rows are cut: `chunks` a row, each of `chunk_vectors` 16-byte vectors, read by `group` threads.

    blocks x THREADS threads run the first and third kernel; in the second, reduce_blocks x reduce_threads, each row is
    merged by `lanes` threads.
    """

    chunk_vectors: int
    chunks: int
    group: int
    blocks: int
    lanes: int
    reduce_threads: int
    reduce_blocks: int


def plan(rows: int, columns: int, width: int, aligned: bool, processors: int) -> Plan:
    """Cut rows x columns, both at least 1; pure, needs no GPU.

    width       elements to a 16-byte vector
    aligned     every row begins at a multiple of 16 bytes; else one vector more may be touched
    processors  multiprocessors of the GPU: a thread takes several vectors only where all keep 1024 threads
    Raises Unsupported for more chunks than the kernels can number.
    """
    vectors = -(-(columns + (0 if aligned else width - 1)) // width)
    busy = rows * vectors // (processors * 1024)
    per_thread = MOST_VECTORS_A_THREAD if busy >= MOST_VECTORS_A_THREAD else 2 if busy >= 2 else 1
    group = min(THREADS, _power_of_two(-(-vectors // per_thread)))
    tile = group * per_thread
    tiles = -(-vectors // tile)
    if tiles > MOST_CHUNKS_A_ROW:
        chunk_vectors = -(-tiles // MOST_CHUNKS_A_ROW) * tile
    elif tiles > 1:
        # Even chunks of whole warps: each begins where a warp's 512 bytes do, and none is left with a single vector.
        chunk_vectors = -(-vectors // (32 * tiles)) * 32
    else:
        chunk_vectors = vectors
    chunks = -(-vectors // chunk_vectors)
    if rows * chunks > MOST_CHUNKS:
        raise Unsupported(f"{rows} rows in {chunks} chunks each are more than {MOST_CHUNKS} chunks")
    lanes = min(REDUCE_THREADS, _power_of_two(chunks))
    reduce_threads = max(THREADS, lanes)
    return Plan(
        chunk_vectors=chunk_vectors,
        chunks=chunks,
        group=group,
        blocks=-(-rows * chunks * group // THREADS),
        lanes=lanes,
        reduce_threads=reduce_threads,
        reduce_blocks=-(-rows * lanes // reduce_threads),
    )


def _power_of_two(count: int) -> int:
    """The smallest power of two that is not below count."""
    return 1 << (count - 1).bit_length()


def cubin(case: Any, arch: str) -> bytes:
    """The three kernels for a case's dtypes. Raises Unsupported for dtypes that they do not serve."""
    if case.dtype not in C_TYPES:
        raise Unsupported(f"{case.dtype} input: the kernels read {', '.join(C_TYPES)}")
    if case.out_dtype not in (case.dtype, "float32"):
        raise Unsupported(f"{case.out_dtype} output of {case.dtype}: the kernels write the input's dtype or float32")
    return _nvrtc.cubin(SOURCE, {"INPUT": C_TYPES[case.dtype], "OUTPUT": C_TYPES[case.out_dtype]}, arch)


def prepare(case: Any) -> Callable[[Any], Any]:
    """A launch for the case on the device that is current now.

    The launch takes a CUDA tensor of the case's shape and dtype, with any strides and offset, and returns a contiguous
    one of out_dtype. Columns that are not neighbours are copied first. Raises Unsupported as `cubin` and `plan` do.
    """
    import torch

    device = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(device)
    arch = f"sm_{properties.major}{properties.minor}" + ("a" if properties.major == 9 else "")
    code = cubin(case, arch)
    out_dtype = getattr(torch, case.out_dtype)
    if case.elements == 0:
        return lambda x: torch.empty(x.shape, dtype=out_dtype, device=x.device)
    torch.cuda.synchronize()  # makes the device's primary context current, in which the kernels are loaded
    functions = _driver.functions(code, KERNELS, device)
    width = VECTOR_BYTES // ITEM_BYTES[case.dtype]
    processors = properties.multi_processor_count
    plans = [plan(case.rows, case.columns, width, aligned, processors) for aligned in (False, True)]
    return _launch(case, out_dtype, [_route(functions, chosen, case.rows) for chosen in plans])


def _route(functions: tuple[Any, ...], chosen: Plan, rows: int) -> tuple[int, tuple[int, ...], tuple[Any, ...]]:
    """The number of chunks, the arguments and the (function, blocks, threads) of the launches of a plan."""
    units = rows * chosen.chunks
    arguments = (chosen.chunk_vectors, rows, chosen.chunks, units, chosen.group, chosen.lanes)
    statistics, reduce, normalise = functions
    launches = (
        (statistics, chosen.blocks, THREADS),
        (reduce, chosen.reduce_blocks, chosen.reduce_threads),
        (normalise, chosen.blocks, THREADS),
    )
    return units, arguments, launches


def _launch(case: Any, out_dtype: Any, routes: list[Any]) -> Callable[[Any], Any]:
    """The launch; routes are for rows that begin at any address, and for rows that begin at multiples of 16 bytes."""
    import torch

    rows, columns, item_bytes = case.rows, case.columns, ITEM_BYTES[case.dtype]
    empty, empty_like, pack = torch.empty, torch.empty_like, ARGUMENTS.pack_into
    float32, contiguous = torch.float32, torch.contiguous_format
    # Without the Stream object that torch.cuda.current_stream makes on every call.
    current_stream = torch._C._cuda_getCurrentRawStream
    enqueue = _driver.launcher(ARGUMENTS.size)

    def launch(x: Any) -> Any:
        device = x.device
        y = empty_like(x, dtype=out_dtype, memory_format=contiguous)  # half the host time of empty(x.shape, ...)
        matrix, row_stride = as_rows(x, rows, columns)
        source = matrix.data_ptr()
        units, arguments, launches = routes[(source | row_stride * item_bytes) % VECTOR_BYTES == 0]
        # Of this call alone: under capture or on another stream it belongs to that graph or stream.
        workspace = empty(2 * (units + rows), dtype=float32, device=device)
        partials = workspace.data_ptr()
        values = (source, y.data_ptr(), partials, partials + 8 * units, columns, row_stride, *arguments)
        enqueue(current_stream(device.index), pack, values, launches)
        return y

    return launch


def as_rows(x: Any, rows: int, columns: int) -> tuple[Any, int]:
    """x itself, a view or a copy of it with neighbouring columns, and the distance of its rows in elements.

    The distance is 0 for a single row, whatever its stride: it must not count against the row's alignment.
    """
    if x.is_contiguous():
        return x, columns if rows > 1 else 0
    matrix = x if x.dim() == 2 else x.reshape(rows, columns)
    row_stride, column_stride = matrix.stride()
    if column_stride != 1 and columns > 1:
        matrix, row_stride = matrix.contiguous(), columns
    return matrix, row_stride if rows > 1 else 0
