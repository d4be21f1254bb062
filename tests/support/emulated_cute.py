"""What stands for the CuTe DSL on a CPU: its modules, and the hardware's approximations with their flushing of small numbers."""

import contextlib
import sys
from types import ModuleType
from unittest.mock import MagicMock

import numpy as np

from support.paths import ROOT

PACKAGE = "_emulated_cute"
SMALLEST_NORMAL = np.float32(2.0**-126)


def flushed(x):
    return np.float32(0 * x if abs(x) < SMALLEST_NORMAL else x)


def exp2(x, approx, ftz):
    """ex2.approx with .ftz or without, rounded to nearest."""
    assert approx
    power = np.float32(np.exp2(np.float64(flushed(x) if ftz else x)))
    return flushed(power) if ftz else power


def rcp_approx(x):
    """rcp.approx.ftz"""
    return flushed(np.float32(1 / np.float64(flushed(x))))


class Cutlass(ModuleType):
    """Whatever else of the DSL a module names when it is imported."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


@contextlib.contextmanager
def standing_in(dsl):
    """Modules in the place of the DSL's, for a package PACKAGE of the files of impls/cute."""
    before, package = dict(sys.modules), ModuleType(PACKAGE)
    package.__path__ = [str(ROOT / "impls" / "cute")]
    sys.modules.update({**dsl, PACKAGE: package})
    try:
        yield
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] in ("cutlass", PACKAGE)]:
            del sys.modules[name]
        sys.modules.update({n: m for n, m in before.items() if n.split(".")[0] == "cutlass"})
