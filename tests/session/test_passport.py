"""The passport of a run: which packages it names."""

from types import SimpleNamespace

from support.builders import variant

from softbench.session import passport

INSTALLED = {
    "torch": ["sympy", "nvidia-cudnn-cu12"],
    "quack-kernels": ["nvidia-cutlass-dsl>=4", "apache_tvm_ffi (>=0.1)", "torch", "ruff; extra == 'dev'"],
    "nvidia-cutlass-dsl": ["cuda-python>=12"],
    "cuda-python": ["cuda-bindings~=13.0"],
    "apache-tvm-ffi": ["typing-extensions>=4.5", "absent"],
    "flash-attn": ["torch", "einops"],
} | {name: [] for name in ("cuda-bindings", "typing-extensions", "sympy", "nvidia-cudnn-cu12", "ruff")}


def test_packages_are_what_implementations_require_and_what_that_requires(monkeypatch):
    def installed(name, path):
        return SimpleNamespace(version="1", requires=INSTALLED[name]) if name in INSTALLED else None

    monkeypatch.setattr(passport, "installed", installed)
    always = {"python", "softbench", "torch"}
    assert passport.packages().keys() == always
    asks = [variant("a", requires=("cuda>=sm_90", "quack-kernels")), variant("b", requires=("Flash_Attn>=2.8", "torch"))]
    further = {"nvidia-cutlass-dsl", "cuda-python", "cuda-bindings", "apache-tvm-ffi", "typing-extensions"}
    assert passport.packages(asks).keys() == always | further | {"quack-kernels", "flash-attn"}
