"""Grids of kernels that passed whole, with the files and compilers of which their outcome is a function.

Compiling and emulating every kernel takes a quarter of an hour of a core, and says the same until a source, a test or a compiler
changes. `pytest tests/impls --settle` runs every value and writes what it ran with to settled.json; where all of that is
still the same, a run draws a sixteenth of each grid, by the day, and where anything differs it runs them all.
"""

import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from support.grids import over
from support.paths import ROOT

FILE = ROOT / "tests" / "impls" / "settled.json"
FAMILIES = ("cuda", "cute", "library", "triton")
ONE_IN = 16
PACKAGES = (
    *("torch", "triton", "numpy", "nvidia-cutlass-dsl", "apache-tvm-ffi"),
    *("cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "quack-kernels", "liger-kernel"),
)
is_settling = False
"""Whether this session runs every value, to write settled.json at its end."""


def every(names, values):
    """As `over`; of a family that is settled, a drawn sixteenth of the values."""

    def decorate(test):
        return over(names, drawn(values, test.__module__, test.__name__))(test)

    return decorate


def drawn(values, module, test):
    """All values, or a drawn sixteenth where the family of the module is settled: neighbours, which share what is built."""
    rows = list(values)
    if not is_drawn(family_of(module)):
        return rows
    start = random.Random(f"{time.strftime('%Y-%m-%d')} {test}").randrange(len(rows))
    return [*rows[start:], *rows[:start]][: -(-len(rows) // ONE_IN)]


def family_of(module):
    return module.rpartition(".")[2].removeprefix("test_impl_").partition("_")[0]


def is_drawn(family):
    """Whether nothing has changed since the family's tests passed whole."""
    return not is_settling and _settled().get(family) == digest(family)


def settle():
    """Write that all families passed whole with what is here now."""
    FILE.write_text(json.dumps({family: digest(family) for family in FAMILIES}, indent=2) + "\n")


@cache
def _settled():
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


@cache
def digest(family):
    """SHA-256 of what the outcome of a family's tests depends on: files, packages, Python, g++."""
    found = hashlib.sha256(repr([*map(_version, PACKAGES), sys.version_info[:2], _compiler()]).encode())
    for path in sorted(files(family)):
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def files(family):
    """The tests of a family, its folder, the cases of shapes.yaml, and what any of these imports from this checkout."""
    found = {ROOT / "shapes.yaml"}
    ahead = [*(ROOT / "tests" / "impls").glob(f"test_impl_{family}*.py"), *(ROOT / "impls" / family).rglob("*")]
    while ahead:
        path = ahead.pop()
        if path in found or not path.is_file() or "__pycache__" in path.parts:
            continue
        found.add(path)
        if path.suffix == ".py":
            ahead += _imported(path.read_text())
        if path.name == "__init__.py":  # a package's sources in other languages
            ahead += [other for other in path.parent.iterdir() if other.suffix != ".py"]
    return found


def _imported(text):
    """Files of this checkout that a source imports, in strings of code too; no kernel's test runs the command line."""
    modules = re.findall(r"^ *import ((?:softbench|support|impls)[\w.]*)", text, re.M)
    for module, names in re.findall(r"^ *from ((?:softbench|support|impls)[\w.]*) import (\([^)]*\)|.*)", text, re.M):
        modules += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))]
    modules = [module for module in modules if not module.startswith("softbench.cli")]
    places = [(ROOT / ("tests" if m.startswith("support") else "")).joinpath(*m.split(".")) for m in modules]
    return [path for place in places for path in (place.with_suffix(".py"), place / "__init__.py")]


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def _compiler():
    """The version of g++, which compiles CUDA sources for the CPU; "" without one."""
    if not shutil.which("g++"):
        return ""
    return subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
