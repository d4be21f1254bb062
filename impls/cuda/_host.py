"""Host side of every rung: the kernels for a case's dtypes, and a launch that allocates, packs and enqueues."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

from softbench import Unsupported

from . import _driver, _nvrtc, _plans
from ._plans import Rung
from ._program import ARGUMENTS, VECTOR_BYTES, Gpu, Program, Shape
from ._workspace import Words

C_TYPES = {"float16": "Half", "bfloat16": "Bfloat", "float32": "float"}
ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
H100 = Gpu(processors=132, l2_bytes=50 * 2**20)  # the GPU of plans made without one


def cubin(case, rung: Rung, arch: str) -> bytes:
    """The kernels of a rung's source for a case's dtypes. Raises Unsupported for dtypes that they do not serve."""
    if case.dtype not in C_TYPES:
        raise Unsupported(f"{case.dtype} input: the kernels read {', '.join(C_TYPES)}")
    if case.out_dtype not in (case.dtype, "float32"):
        raise Unsupported(f"{case.out_dtype} output of {case.dtype}: the kernels write the input's dtype or float32")
    return _nvrtc.cubin(rung.source, {"INPUT": C_TYPES[case.dtype], "OUTPUT": C_TYPES[case.out_dtype]}, arch)


def cubins(case, rung: Rung) -> Iterator[tuple[str, bytes]]:
    """(kernel, sm_90a cubin) of the kernels that a case takes on an H100, rows at multiples of 16 bytes or not.

    Without a GPU. Raises Unsupported as `prepare`.
    """
    code = cubin(case, rung, "sm_90a")
    if case.elements:
        used = {step.kernel for program in programs(case, rung, H100) for step in program.steps}
        yield from ((name, code) for name in rung.kernels if name in used)


def of(rung: Rung) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that binds a function of (case, rung) to a rung; applied to a bound function, it replaces the rung."""
    return lambda function: functools.partial(getattr(function, "func", function), rung=rung)


def programs(case, rung: Rung, gpu: Gpu) -> list[Program]:
    """The programs of a rung for a case with elements: for rows that begin anywhere, and for rows at multiples of 16 bytes."""
    size = ITEM_BYTES[case.dtype]
    return [rung.plan(Shape(case.rows, case.columns, size, aligned), gpu) for aligned in (False, True)]


def prepare(case, rung: Rung) -> Callable[[Any], Any]:
    """A launch for the case on the device that is current now.

    The launch takes a CUDA tensor of the case's shape and dtype, with any strides and offset, and returns a contiguous
    one of out_dtype. Columns that are not neighbours are copied first. Raises Unsupported as `cubin` and the rung's plan
    do, and where the GPU does not hold a block of the cooperative kernel.
    """
    import torch

    device = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(device)
    arch = f"sm_{properties.major}{properties.minor}" + ("a" if properties.major == 9 else "")
    code = cubin(case, rung, arch)
    if case.elements == 0:
        return lambda x: torch.empty(x.shape, dtype=getattr(torch, case.out_dtype), device=x.device)
    torch.cuda.synchronize()  # makes the device's primary context current, in which the kernels are loaded
    functions = dict(zip(rung.kernels, _driver.functions(code, rung.kernels, device), strict=True))
    gpu = Gpu(properties.multi_processor_count, properties.L2_cache_size)
    if rung.shared_bytes:
        held = min(_driver.residents(kernel, _plans.SPLIT_THREADS, rung.shared_bytes) for kernel in functions.values())
        if not held:
            raise Unsupported(f"a multiprocessor holds no block of {rung.source} with {rung.shared_bytes} bytes shared")
        gpu = dataclasses.replace(gpu, residents=min(gpu.residents, held))
    chosen = programs(case, rung, gpu)
    return _launch(case, functions, chosen, torch.device("cuda", device), overlaps=properties.major >= 9)


def _launch(case, functions: dict[str, Any], chosen: list[Program], device, overlaps: bool = True) -> Callable[[Any], Any]:
    """The launch; the programs are for rows that begin at any address, and for rows at multiples of 16 bytes.

    overlaps  from sm_90 on: a kernel may start before the previous one ends, and waits for that itself
    """
    import torch

    out_dtype = getattr(torch, case.out_dtype)
    rows, columns, item_bytes = case.rows, case.columns, ITEM_BYTES[case.dtype]
    empty, empty_like, pack = torch.empty, torch.empty_like, ARGUMENTS.pack_into
    float32, contiguous = torch.float32, torch.contiguous_format
    # Without the Stream object that torch.cuda.current_stream makes on every call.
    current_stream = torch._C._cuda_getCurrentRawStream
    enqueue = _driver.Launcher(ARGUMENTS.size)
    routes = []
    for program in chosen:
        words = Words(program.words, device) if program.words else None
        routes.append((program.floats, words, program.arguments(), _launches(enqueue, functions, program, overlaps)))

    def launch(x):
        y = empty_like(x, dtype=out_dtype, memory_format=contiguous)  # half the host time of empty(x.shape, ...)
        matrix, row_stride = as_rows(x, rows, columns)
        source, stream = matrix.data_ptr(), current_stream(device.index)
        floats, words, arguments, launches = routes[(source | row_stride * item_bytes) % VECTOR_BYTES == 0]
        # One workspace per call: under capture it belongs to the graph, on another stream to that stream.
        workspace = empty(floats, dtype=float32, device=device) if floats else None
        partials = workspace.data_ptr() if floats else 0
        exchange = words.of(stream) if words else None
        places = (source, y.data_ptr(), partials, exchange.data_ptr() if words else 0)
        enqueue(stream, pack, (*places, columns, row_stride, *arguments), launches)
        return y

    return launch


def _launches(
    enqueue: _driver.Launcher, functions: dict[str, Any], program: Program, overlaps: bool
) -> tuple[tuple[Any, ...], ...]:
    launches = []
    for step in program.steps:
        parameters = enqueue.parameters(*([step.level] if step.level else []))
        launch = (functions[step.kernel], step.blocks, step.threads, parameters)
        if overlaps:
            launches.append(enqueue.special(*launch, step.shared_bytes, step.cooperative))
        else:
            launches.append(enqueue.plain(*launch))
    return tuple(launches)


def as_rows(x, rows: int, columns: int) -> tuple[Any, int]:
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
