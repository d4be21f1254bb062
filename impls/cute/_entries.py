"""Launches and cubins of the CuTe kernels for the harness's cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from softbench import LAYER_EPS, RMS_EPS, Unsupported

from . import _host, _plans
from ._host import Build
from ._plans import ITEM_BYTES, Gpu

Launch = Callable[..., Any]


def launch(case: Any, builds: Callable[..., list[Build]] | None = None) -> Launch:
    """The launch of a case on the current device.

    builds  in place of the table's: a function of (case, gpu, aligned)
    Raises Unsupported for dtypes and lengths that no kernel serves.
    """
    import torch

    if case.elements:
        from . import _launch

        device = torch.device("cuda", torch.cuda.current_device())
        offered = (builds or of_case)(case, _launch.gpu(device.index), whole(case))
        kernel = _launch.ready(tuple(offered), device)
        if len(case.shape) == 2 and case.layout == "contiguous":
            return PLAIN[case.operator](case, kernel)
        if builds is not None:
            raise Unsupported(f"one rung of a ladder takes contiguous matrices, not {case.layout} {case.shape}")
    else:
        _check(case)
    return _any(case)


def cubins(case: Any, builds: Callable[..., list[Build]] | None = None) -> Iterator[tuple[str, bytes]]:
    """(name, cubin) of the kernel that a Hopper GPU of 132 multiprocessors takes first."""
    if case.elements == 0:
        raise Unsupported("an empty input needs no kernel")
    build = (builds or of_case)(case, _plans.HOPPER, whole(case))[0]
    words = (case.operator, *dict.fromkeys(filter(None, build.dtypes)), case.columns, _plans.describe(build.config))
    yield "_".join(map(str, words)), _host.cubin(build)


def of_case(case: Any, gpu: Gpu, aligned: bool) -> list[Build]:
    """The table's builds for a case, at least one. Raises Unsupported where there is none."""
    _check(case)
    if case.operator == "softmax":
        few = _plans.few(case.rows, case.columns, ITEM_BYTES[case.dtype], gpu)
        found = _plans.softmax(case.columns, case.dtype, case.out_dtype, gpu, aligned, few)
    elif case.operator == "softmax_backward":
        found = _plans.softmax_backward(case.columns, case.dtype, gpu, aligned)
    else:
        layer, eps = _kind(case)
        found = _plans.norm(case.columns, _norm_dtypes(case), layer, eps, gpu, aligned, case.rows <= _plans.FEW_ROWS)
    builds = list(found)
    if not builds:
        raise Unsupported(f"{case.columns} columns of {case.dtype}: no layout on {gpu.architecture}")
    return builds


def rung(**changes: Any) -> Callable[..., list[Build]]:
    """Builds of one rung of the ladder: a CTA or cluster a row, with another way to keep the row or to reduce it.

    keep, online  as in `htile.config` and `kernels.softmax`
    """

    def builds(case: Any, gpu: Gpu, aligned: bool) -> list[Build]:
        found = [build for build in of_case(case, gpu, aligned) if build.kernel == "softmax.Softmax"]
        if not found:
            raise Unsupported(f"{case.columns} columns of {case.dtype} are split over the whole GPU")
        config = found[0].config
        if "online" in changes and config.peers == 1:
            raise Unsupported(f"{case.columns} columns of {case.dtype}: a row has one warp, which exchanges nothing")
        if "keep" in changes and config.vectors_per_thread == 1:
            raise Unsupported(f"{case.columns} columns of {case.dtype}: a thread has one vector, and nothing to keep")
        return [_changed(build, **changes) for build in found]

    return builds


def _changed(build: Build, keep: str = "", online: bool = True) -> Build:
    config = replace(build.config, keep=keep) if keep else build.config
    flags = build.flags if online else (*build.flags, ("online", False))
    return replace(build, config=config, flags=flags)


def whole(case: Any) -> bool:
    """Whether the rows of a contiguous input of the case are whole vectors."""
    return _plans.whole_vectors(case.columns, ITEM_BYTES.get(case.dtype, 1))


def _check(case: Any) -> None:
    if case.dtype not in ITEM_BYTES:
        raise Unsupported(f"{case.dtype}: the kernels take {', '.join(ITEM_BYTES)}")
    outputs = (case.dtype, "float32") if case.operator == "softmax" else (case.dtype,)
    if case.out_dtype not in outputs:
        raise Unsupported(f"{case.dtype} to {case.out_dtype}: the kernels write {' or '.join(dict.fromkeys(outputs))}")
    if case.operator.endswith("norm") and not case.shape:
        raise Unsupported("a norm needs a dimension to go along")


def _kind(case: Any) -> tuple[bool, float]:
    """(whether it is a LayerNorm, eps)."""
    layer = case.operator.endswith("layernorm")
    return layer, LAYER_EPS if layer else RMS_EPS


def _norm_dtypes(case: Any) -> tuple[str, ...]:
    """Of (x, weight, bias, residual, y, residual_out, rstd, mean)."""
    layer, _ = _kind(case)
    adds = case.operator.startswith("add_")
    bias, added = (case.dtype if layer else ""), (case.dtype if adds else "")
    rstd, mean = ("float32" if adds else ""), ("float32" if adds and layer else "")
    return (case.dtype, case.dtype, bias, added, case.dtype, added, rstd, mean)


def _any(case: Any) -> Launch:
    """A launch through the importable functions, which look at every input's strides."""
    import torch

    from . import _functions, _norm_functions

    out_dtype = getattr(torch, case.out_dtype)
    if case.operator == "softmax":
        return lambda x: _functions.softmax(x, -1, out_dtype)
    if case.operator == "softmax_backward":
        return _functions.softmax_backward
    layer, eps = _kind(case)
    forward = _norm_functions.forward
    if not case.operator.startswith("add_"):
        return lambda x, weight, bias=None: forward(x, weight, bias, None, layer, eps)[0]
    return lambda x, residual, weight, bias=None: tuple(forward(x, weight, bias, residual, layer, eps, True))


def _plain_softmax(case: Any, kernel: Launch) -> Launch:
    import torch

    if case.out_dtype == case.dtype:
        empty_like = torch.empty_like

        def launch(x: Any) -> Any:
            y = empty_like(x)
            kernel(x, y)
            return y

        return launch
    empty, shape, dtype = torch.empty, case.shape, getattr(torch, case.out_dtype)

    def launch_wider(x: Any) -> Any:
        y = empty(shape, dtype=dtype, device=x.device)
        kernel(x, y)
        return y

    return launch_wider


def _plain_backward(case: Any, kernel: Launch) -> Launch:
    import torch

    empty_like = torch.empty_like

    def launch(dy: Any, y: Any) -> Any:
        dx = empty_like(dy)
        kernel(dy, y, dx)
        return dx

    return launch


def _plain_norm(case: Any, kernel: Launch) -> Launch:
    import torch

    empty_like = torch.empty_like

    def launch(x: Any, weight: Any, bias: Any = None) -> Any:
        y = empty_like(x)
        kernel(x, weight, bias, None, y, None, None, None)
        return y

    return launch


def _plain_add_norm(case: Any, kernel: Launch) -> Launch:
    import torch

    empty, empty_like, rows = torch.empty, torch.empty_like, case.rows
    layer, _ = _kind(case)

    def launch(x: Any, residual: Any, weight: Any, bias: Any = None) -> Any:
        y, total = empty_like(x), empty_like(x)
        rstd = empty(rows, dtype=torch.float32, device=x.device)
        mean = empty_like(rstd) if layer else None
        kernel(x, weight, bias, residual, y, total, rstd, mean)
        return (y, total, rstd, mean) if layer else (y, total, rstd)

    return launch


PLAIN = {
    "softmax": _plain_softmax,
    "softmax_backward": _plain_backward,
    "rmsnorm": _plain_norm,
    "layernorm": _plain_norm,
    "add_rmsnorm": _plain_add_norm,
    "add_layernorm": _plain_add_norm,
}
