"""Softmax in CuTe DSL: the row lies in the shared memory of a cluster, (max, sum) pairs are exchanged once."""

from __future__ import annotations

import functools

from softbench import Unsupported, implementation

ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4}


@implementation(operator="softmax", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"])
def cute_cluster(case):
    import torch

    out_dtype = getattr(torch, case.out_dtype)
    rows, columns = case.rows, case.columns
    if case.elements == 0:
        return lambda x: torch.empty(x.shape, dtype=out_dtype, device=x.device)
    config = _layout(case, "sm_{}{}".format(*torch.cuda.get_device_capability()))
    kernel = _compiled(case.dtype, case.out_dtype, config)
    # Loads the module, which a stream under capture would refuse, and shows at once a cluster that will not launch.
    kernel(*(torch.empty((1, columns), dtype=getattr(torch, d), device="cuda") for d in (case.dtype, case.out_dtype)))

    def launch_matrix(x):
        y = torch.empty((rows, columns), dtype=out_dtype, device=x.device)
        kernel(x, y)
        return y

    def launch_any(x):
        y = torch.empty(x.shape, dtype=out_dtype, device=x.device)
        kernel(_aligned_rows(x, rows, columns), y.view(rows, columns))
        return y

    return launch_matrix if len(case.shape) == 2 and case.layout == "contiguous" else launch_any


@cute_cluster.cubins
def cute_cluster_cubins(case):
    import tempfile

    if case.elements == 0:
        raise Unsupported("an empty input needs no kernel")
    config = _layout(case, "sm_90")
    with tempfile.TemporaryDirectory() as folder:
        compiled = _compile(case.dtype, case.out_dtype, config, f"--gpu-arch sm_90a --keep-cubin --dump-dir {folder}")
        yield f"softmax_{case.dtype}_to_{case.out_dtype}_{case.columns}_cluster_{config.cluster}", compiled.__cubin__


def _layout(case, architecture):
    """The tile configuration of a case. Raises Unsupported where there is none."""
    from .htile.config import choose

    itemsize = ITEMSIZE.get(case.dtype)
    if itemsize is None or case.out_dtype not in (case.dtype, "float32"):
        raise Unsupported(f"{case.dtype} to {case.out_dtype}: only {', '.join(ITEMSIZE)}, to the same or to float32")
    try:
        return choose(case.columns, itemsize, architecture)
    except ValueError as error:
        raise Unsupported(str(error)) from error


def _aligned_rows(x, rows, columns):
    """x as a matrix of (rows, columns) without a copy. Raises Unsupported where rows do not start on 16 bytes."""
    try:
        matrix = x.view(rows, columns)
    except RuntimeError as error:
        raise Unsupported("the input is not a matrix of evenly spaced rows") from error
    spacing = matrix.stride(0) * x.element_size()
    if matrix.stride(1) != 1 or matrix.data_ptr() % 16 or (rows > 1 and spacing % 16):
        raise Unsupported("the input's rows are not contiguous or do not start on 16 bytes")
    return matrix


@functools.cache
def _compiled(dtype, out_dtype, config):
    return _compile(dtype, out_dtype, config, "")


def _compile(dtype, out_dtype, config, options):
    """The kernel as a callable of two CUDA matrices, (x, y), for any number of rows, on torch's current stream."""
    import cutlass
    import cutlass.cute as cute

    from .htile.softmax import Softmax

    types = {"float16": cutlass.Float16, "bfloat16": cutlass.BFloat16, "float32": cutlass.Float32}
    rows = cute.sym_int()

    def matrix(name):
        stride = (cute.sym_int64(divisibility=128 // types[name].width), 1)
        return cute.runtime.make_fake_tensor(types[name], (rows, config.columns), stride=stride, assumed_align=16)

    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(
        Softmax(config), matrix(dtype), matrix(out_dtype), stream, options=f"--enable-tvm-ffi {options}".strip()
    )
