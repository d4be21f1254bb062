"""Scripts in Triton's interpreter, which is chosen before a kernel is decorated: each in a process of its own."""

from support.scripts import script

PRELUDE = """
import sys, warnings
warnings.filterwarnings("ignore", category=RuntimeWarning)  # numpy's words for what a GPU does silently
from dataclasses import replace
from pathlib import Path
import torch
from softbench.measure.check import check, compare
from softbench.measure.worker import interpreter, loading
from softbench.measure.worker.loading import load
from softbench.model import Case
interpreter.correct()
"""


def interpret(code, *arguments):
    """What a script behind PRELUDE has come to."""
    return script(PRELUDE + code, *map(str, arguments), TRITON_INTERPRET="1")


def ends_well(done):
    assert done.returncode == 0, done.stderr[-3000:]


def faulty(folder, path, old, new):
    """Copy the Python files beside a kernel's into a folder, with a change of its text."""
    for other in path.parent.glob("*.py"):
        (folder / other.name).write_text(other.read_text())
    text = path.read_text()
    assert text.count(old) == 1
    (folder / path.name).write_text(text.replace(old, new))


def is_wrong(done):
    assert "AssertionError" in done.stderr, done.stderr[-1000:]


def interpreted(folder, code):
    """Run a script, from a file in the folder, where the interpreter reads its kernels. It must end well."""
    path = folder / "script.py"
    path.write_text(code)
    ends_well(script(f"import runpy; runpy.run_path({str(path)!r})", TRITON_INTERPRET="1"))
