"""The k largest of a router's scores and their softmax, in CuTe DSL: here -> kernels/topk.py, in the layouts of htile/topk.py."""

import functools

from softbench import Unsupported, implementation

from . import _host, _launch, _layouts, _plans
from ._host import Build
from .htile.topk import choose_topk


@implementation(operator="softmax_topk", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"])
def cute_router(case):
    import torch

    device, k = torch.device("cuda", torch.cuda.current_device()), dict(case.params)["k"]
    kernel = functools.cache(lambda place: _launch.ready((of_case(case, _launch.gpu(device.index), place),), device))
    if case.elements:
        kernel(0)

    def launch(x):
        x = x.contiguous()
        weight, expert = (x.new_empty((case.rows, k), dtype=d) for d in (torch.float32, torch.int32))
        if case.elements:
            kernel(x.data_ptr() % 16)(x.view(case.rows, case.columns), weight, expert)
        return weight, expert

    return launch


@cute_router.cubins
def cubins(case):
    if case.elements:
        build = of_case(case, _layouts.HOPPER)
        yield f"{case.operator}_{case.dtype}_{case.columns}_{dict(case.params)['k']}", _host.cubin(build)


def of_case(case, gpu, place=0) -> Build:
    if case.dtype not in _plans.ITEM_BYTES:
        raise Unsupported(f"{case.dtype}: the kernels take {', '.join(_plans.ITEM_BYTES)}")
    try:
        config = choose_topk(case.columns, _plans.ITEM_BYTES[case.dtype], dict(case.params)["k"], gpu.architecture, place)
    except ValueError as reason:
        raise Unsupported(str(reason)) from None
    return Build("topk.SoftmaxTopk", config, (case.dtype, "float32", "int32"), case.params, gpu.arch)
