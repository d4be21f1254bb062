"""Which packages are missing, and how to install them."""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence

_EXTRAS = {
    "triton": ("triton", "numpy"),
    "cuda": ("cuda", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "libnvrtc"),
    "cute": ("cutlass", "nvidia-cutlass-dsl", "tvm_ffi", "apache-tvm-ffi"),
    "liger": ("liger_kernel", "liger-kernel"),
    "quack": ("quack", "quack-kernels"),
    "flash": ("flash_attn", "flash-attn"),
    "xdist": ("xdist",),
    "terminal": ("rich",),
    "serve": ("starlette", "uvicorn"),
}
"""Extra of softbench -> the modules and distributions that it installs."""
_DISTRIBUTIONS = {"yaml": "pyyaml", "pytest_benchmark": "pytest-benchmark", "torch": "torch", "plotly": "plotly"}
"""Distributions that softbench itself requires, by module."""


def is_missing(module: str) -> bool:
    """Whether a module cannot be imported here, without importing it."""
    return importlib.util.find_spec(module) is None


def installed(name: str, path: Sequence[str] | None = None) -> importlib.metadata.Distribution | None:
    """A distribution here, or in the folders of a path."""
    found = importlib.metadata.distributions(name=name, path=list(sys.path if path is None else path))
    return next(iter(found), None) if name else None


def advice(name: str) -> str:
    """ "numpy is missing: pip install 'softbench[triton]'", of a module or a distribution."""
    top = name.split(".")[0]
    if how := remedy(top):
        return f"{top} is missing: {how}"
    return f"the module {top!r} is missing; install what has it"


def remedy(name: str) -> str:
    """What installs it; "" if unknown."""
    if extra := next((extra for extra, names in _EXTRAS.items() if name in names), ""):
        return f"pip install 'softbench[{extra}]'"
    return f"pip install {_DISTRIBUTIONS[name]}" if name in _DISTRIBUTIONS else ""
