"""Which packages are missing, and how to install them."""

from __future__ import annotations

import importlib.util

_EXTRAS = {
    "triton": "triton",
    "numpy": "triton",
    "cuda": "cuda",
    "cuda-core": "cuda",
    "cuda-bindings": "cuda",
    "nvidia-cuda-nvrtc": "cuda",
    "libnvrtc": "cuda",
    "cutlass": "cute",
    "nvidia-cutlass-dsl": "cute",
    "tvm_ffi": "cute",
    "apache-tvm-ffi": "cute",
    "liger_kernel": "liger",
    "liger-kernel": "liger",
    "quack": "quack",
    "quack-kernels": "quack",
    "flash_attn": "flash",
    "flash-attn": "flash",
    "xdist": "xdist",
    "rich": "terminal",
}
"""Module or distribution -> the extra of softbench that installs it."""
_DISTRIBUTIONS = {"yaml": "pyyaml", "pytest_benchmark": "pytest-benchmark", "torch": "torch", "plotly": "plotly"}
"""Distributions that softbench itself requires, by module."""


def is_missing(module: str) -> bool:
    """Whether a module cannot be imported here, without importing it."""
    return importlib.util.find_spec(module) is None


def advice(name: str) -> str:
    """ "numpy is missing: pip install 'softbench[triton]'", of a module or a distribution."""
    top = name.split(".")[0]
    if how := remedy(top):
        return f"{top} is missing: {how}"
    return f"the module {top!r} is missing; install what has it"


def remedy(name: str) -> str:
    """What installs it; "" if unknown."""
    if extra := _EXTRAS.get(name):
        return f"pip install 'softbench[{extra}]'"
    return f"pip install {_DISTRIBUTIONS[name]}" if name in _DISTRIBUTIONS else ""
