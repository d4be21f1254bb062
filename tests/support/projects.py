"""A project of somebody else's, and the benchmark run in it."""

import json
import os
import signal
import subprocess
import sys

from support import warm
from support.paths import ROOT

PYTHONPATH = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
"""Of a child: this checkout before what the packages of this machine may be found by."""

SHAPES = """
profiles:
  cpu:
    description: one tiny case that is timed
    groups: [{operator: softmax, dtype: float32, shapes: [[16, 256]]}]
  both:
    description: two tiny cases
    groups: [{operator: softmax, dtype: [float32, float16], rows: [4, 16], columns: 256}]
"""
KERNELS = """
import os, time
from softbench import Unsupported, implementation

def exact(x):
    import torch
    return torch.softmax(x, dim=-1)

@implementation(operator="softmax", requires=["torch"])
def own_right(case):
    def launch(x):
        if "OWN_SLEEP" in os.environ:
            time.sleep(float(os.environ["OWN_SLEEP"]))
        return exact(x)
    return launch

@implementation(operator="softmax", requires=["torch"])
def own_zeros(case):
    return lambda x: x * 0

@implementation(operator="softmax", requires=["torch"])
def own_refusing(case):
    raise Unsupported("only on Sundays")

@implementation(operator="softmax", requires=["torch"], known_failures={"*-16x256": "zeros, as everybody knows"})
def own_declared(case):
    return lambda x: x * 0

@implementation(operator="softmax", requires=["torch"], known_failures={"*-16x256": "it was wrong once"})
def own_mended(case):
    return exact

@implementation(operator="softmax", requires=["distribution-that-nobody-has"])
def own_lacking(case):
    return exact
"""
OWN = ("own_declared", "own_lacking", "own_mended", "own_refusing", "own_right", "own_zeros")


def project(folder, **files):
    """A user's project: a shapes.yaml, and kernels/mine with own.py. files: texts of more files in that folder, by name."""
    (folder / "kernels" / "mine").mkdir(parents=True)
    for name, text in {"own": KERNELS, **files}.items():
        (folder / "kernels" / "mine" / f"{name}.py").write_text(text)
    (folder / "shapes.yaml").write_text(SHAPES)
    return folder


def bench(folder, *arguments, code=None, prefix=(), **environment):
    """pytest --softbench in a process of its own, on the CPU, with a short budget; a prefix goes before the command.

    It must end with this code if one is given. It starts warm, except with a prefix other than Python, or a variable that
    Python or torch may read at its start.
    """
    with started(folder, *arguments, prefix=prefix, **environment) as process:
        try:
            output, errors = process.communicate(timeout=120)
        except BaseException:
            process.kill()
            raise
    assert code in (None, process.returncode), f"{process.returncode}\n{output}{errors}"
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def started(folder, *arguments, prefix=(), **environment):
    """The same while it runs."""
    command = [sys.executable, "-m", "pytest", "-p", "softbench.plugin", "--softbench", "--softbench-budget=0.2"]
    own = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1", "COLUMNS": "120", **environment}
    is_real = environment.keys() & {"PYTHONPATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"}
    popen = subprocess.Popen if is_real else warm.popen(PYTHONPATH)
    return popen(
        [*prefix, *command, "--softbench-impls=kernels", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        # A worker of xdist leaves its mark in the environment, by which pytest-benchmark would turn itself off. What is
        # said meanwhile must be seen at once into a pipe that Python buffers as well.
        env={**{k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_XDIST", "PYTHONUNBUFFERED"))}, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def heed_interrupts():
    """A job in the background inherits that Ctrl-C is ignored, and CI is such a job."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def record_lines(folder):
    (path,) = (folder / "reports").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def cells_by_name(folder):
    return {cell["variant"]["implementation"]: cell for cell in record_lines(folder)[1:]}
