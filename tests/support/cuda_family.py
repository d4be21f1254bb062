"""The CUDA C++ family, loaded as a worker loads it, and its modules."""

import importlib

from softbench.measure.worker.loading import load
from support.paths import ROOT

FILE = ROOT / "impls" / "cuda" / "softmax.py"
NAMES = ("naive", "multi_pass", "fused", "fused_wide", "fused_two", "online", "warp", "cooperative", "on_chip")
FACTORY = load(FILE, "cuda_fused")
SIBLINGS = FACTORY.__module__.rpartition(".")[0]
host = importlib.import_module(f"{SIBLINGS}._host")
nvrtc = importlib.import_module(f"{SIBLINGS}._nvrtc")
plans = importlib.import_module(f"{SIBLINGS}._plans")
program = importlib.import_module(f"{SIBLINGS}._program")
RUNGS = {name: getattr(plans, name.upper()) for name in NAMES}
