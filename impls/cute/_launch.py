"""From tensors to kernels: matrices of rows, the variant that takes them, the first build that the GPU launches."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from . import _capture, _host, _plans
from ._host import Build
from ._plans import Gpu
from ._workspace import reserve, workspace

Kernel = Callable[..., None]

_ready: dict[tuple[tuple[Build, ...], int], Kernel] = {}
_lock = threading.Lock()


@functools.cache
def gpu(index: int) -> Gpu:
    """The CUDA device of this number."""
    import torch

    properties = torch.cuda.get_device_properties(index)
    return Gpu(f"sm_{properties.major}{properties.minor}", properties.multi_processor_count)


def ready(builds: Sequence[Build], device: Any) -> Kernel:
    """The first of some builds that the device launches, as a function of its tensors; the choice is remembered.

    Each is tried on one row, now, because a graph's capture would refuse to load it. Raises ValueError where there is
    no build, and what CUDA said of the last one where it refuses all of them.
    """
    key = (tuple(builds), device.index)
    with _lock:
        if key not in _ready:
            if not builds:
                raise ValueError("no kernel serves rows of this length on this GPU")
            with _capture.outside(device):
                _ready[key] = _first(builds, device)
        return _ready[key]


def _first(builds: Sequence[Build], device: Any) -> Kernel:
    for build in builds:
        kernel = _host.load(build)
        try:
            _try(build, kernel, device)
        except Exception:  # what a refusal is raised as changes with the DSL's version
            if build is builds[-1]:
                raise
            continue
        return _with_workspace(build, kernel, device) if "workspace" in _host.ARGUMENTS[build.kernel] else kernel
    raise AssertionError("unreachable: the last build returns or raises")


def _try(build: Build, kernel: Kernel, device: Any) -> None:
    import torch

    columns = build.config.columns
    shapes = {"matrix": (1, columns), "columns": (columns,), "rows": (1,)}
    tensors = []
    for what, name in build.arguments:
        if not name:
            tensors.append(None)
        elif what == "workspace":
            tensors.append(torch.zeros(build.config.workspace_words, dtype=torch.int64, device=device))
        else:
            tensors.append(torch.empty(shapes[what], dtype=getattr(torch, name), device=device))
    kernel(*tensors)


def _with_workspace(build: Build, kernel: Kernel, device: Any) -> Kernel:
    words = build.config.workspace_words
    reserve(device)

    def launch(*tensors: Any) -> None:
        kernel(*tensors, workspace(device, words))

    return launch


def as_matrix(x: Any, columns: int) -> Any:
    """A tensor that is not empty as (rows, columns) with neighbouring columns: a view, or a copy where there is none."""
    if x.dim() != 2:
        try:
            x = x.view(-1, columns)
        except RuntimeError:
            return x.contiguous().view(-1, columns)
    if x.stride(1) == 1:
        return x
    # A single column may claim any stride, to torch and not to a kernel.
    return x.as_strided(x.shape, (x.stride(0), 1), x.storage_offset()) if columns == 1 else x.contiguous()


def softmax_rows(columns: int, dtype: Any, out_dtype: Any, device: Any) -> Kernel:
    """The launch of (x, y): both (rows, columns), x of any row stride and offset, y contiguous and fresh.

    Raises ValueError where no kernel serves the rows, on building and not on launching.
    """
    names, this = (_name(dtype), _name(out_dtype)), gpu(device.index)

    @functools.cache
    def kernel(aligned: bool, few: str) -> Kernel:
        return ready(tuple(_plans.softmax(columns, *names, this, aligned, few)), device)

    def chosen(x: Any, aligned: bool) -> Kernel:
        return kernel(aligned, _plans.few(x.size(0), columns, dtype.itemsize, this))

    kernel(_plans.whole_vectors(columns, dtype.itemsize), "")
    matters = _plans.few(1, columns, dtype.itemsize, this)
    return _routed(columns, dtype, chosen if matters else lambda x, aligned: kernel(aligned, ""))


def backward_rows(columns: int, dtype: Any, device: Any) -> Kernel:
    """The launch of (dy, y, dx), all (rows, columns) of one dtype; otherwise as `softmax_rows`."""
    name, this = _name(dtype), gpu(device.index)

    @functools.cache
    def kernel(aligned: bool) -> Kernel:
        return ready(tuple(_plans.softmax_backward(columns, name, this, aligned)), device)

    size = dtype.itemsize
    if not _plans.whole_vectors(columns, size):
        return kernel(False)
    kernel(True)

    def launch(dy: Any, y: Any, dx: Any) -> None:
        places = dy.data_ptr() | y.data_ptr() | (dy.stride(0) | y.stride(0)) * size
        kernel(not places & 15)(dy, y, dx)

    return launch


def norm_rows(columns: int, dtypes: tuple[Any, ...], layer: bool, eps: float, device: Any) -> Kernel:
    """The launch of (x, weight, bias, residual, y, residual_out, rstd, mean), of these dtypes, None for what is absent.

    x, residual and what comes out are (rows, columns), rstd and mean (rows,), weight and bias (columns,) and dense; what
    comes out is contiguous and fresh. Otherwise as `softmax_rows`.
    """
    names, this = tuple(_name(dtype) if dtype else "" for dtype in dtypes), gpu(device.index)
    size = dtypes[0].itemsize

    @functools.cache
    def kernel(aligned: bool, is_few: bool) -> Kernel:
        return ready(tuple(_plans.norm(columns, names, layer, eps, this, aligned, is_few)), device)

    if not _plans.whole_vectors(columns, size):
        return kernel(False, False)
    kernel(True, False)

    def launch(x: Any, weight: Any, bias: Any, residual: Any, *outputs: Any) -> None:
        places = x.data_ptr() | x.stride(0) * size
        if weight is not None:
            places |= weight.data_ptr()
        if bias is not None:
            places |= bias.data_ptr()
        if residual is not None:
            places |= residual.data_ptr() | residual.stride(0) * size
        kernel(not places & 15, x.size(0) <= _plans.FEW_ROWS)(x, weight, bias, residual, *outputs)

    return launch


def _routed(columns: int, dtype: Any, chosen: Callable[[Any, bool], Kernel]) -> Kernel:
    """A launch of (x, y) that looks at the address and the row stride of x where they can be whole vectors."""
    size = dtype.itemsize
    if not _plans.whole_vectors(columns, size):
        return lambda x, y: chosen(x, False)(x, y)

    def launch(x: Any, y: Any) -> None:
        chosen(x, not (x.data_ptr() | x.stride(0) * size) & 15)(x, y)

    return launch


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
