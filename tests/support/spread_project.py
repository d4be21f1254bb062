"""A project whose GPUs and contests are made up; pytest, pytest-xdist, the plugin, its processes, files and locks are real.

The fake ssh makes other hosts: with cards that are 1 % slower, without the reports, and without a network where possible.
"""

import json
import os
import sys

from support import warm
from support.projects import PYTHONPATH, ROOT, project
from support.warm import HEARD, MARK

CASES = 6
SHAPES = f"""
profiles:
  gpu:
    description: cases in a row
    groups: [{{operator: softmax, dtype: float32, rows: {[2**n for n in range(CASES)]}, columns: 64}}]
"""
CONFTEST = '''
import json, os, platform, signal, sys, time
from pathlib import Path
from types import SimpleNamespace

from support import builders
from softbench.measure import device
from softbench.model import Status
from softbench.records import store
from softbench.session.bench import Bench

HERE = Path(__file__).parent
HOST = os.environ.get("FAKE_HOST", "")
NAMES = os.environ.get("FAKE_NAMES", "NVIDIA H200,NVIDIA H200,NVIDIA H200").split(",")
CARDS = {
    str(i): device.Gpu(name, 90, 132, 1 << 20, 1 << 30, 3201000, 6016, f"0000:0{i}:00.0", "580.1", f"GPU-{HOST}{i}")
    for i, name in enumerate(NAMES)
}


def gpus():
    found = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(CARDS)).split(",")
    if "FAKE_STARTED" in os.environ and "PYTEST_XDIST_WORKER" in os.environ:
        found = list(CARDS)  # as a driver that was asked before
    return tuple(CARDS[name] for name in found if name in CARDS)


class Contest:
    """Times follow from the names; a file beside this one says what else happens."""

    pool, open = SimpleNamespace(close=lambda: None), {}

    def __init__(self, bench):
        self.card = device.gpu()
        self.eager = bench.selection.baselines({"softmax"})["softmax"]

    def run(self, case, variants, **_):
        slow, notes = 1.01 if HOST else 1, ("also on the GPU while this was measured: train.py (pid 7)",)
        found = [builders.timed(case, "torch_eager", 3e4 * slow, "reference", variant=self.eager)]
        found.append(builders.roof_of(case, 9e3 * slow, notes=notes * (case.rows == 1)))
        if variants == [self.eager]:
            return found
        with open(HERE / "log", "a") as log:
            print(json.dumps([case.rows, os.environ.get("CUDA_VISIBLE_DEVICES"), os.getpid()]), file=log)
        if (HERE / "killed").exists() and case.rows in (2, 32):
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while (HERE / "asleep").exists() and str(case.rows) in (HERE / "asleep").read_text():
                time.sleep(0.02)
        except KeyboardInterrupt:
            (HERE / f"interrupted-{case.rows}").write_text(str(time.time()))
            raise
        time.sleep(0.1)
        return [*(builders.timed(case, v.implementation, 1e4 + 10 * len(v.id), variant=v) for v in variants), *found]


def append(self, records):
    raise store.StoreError(f"{self.path.name}: cannot be written (No space left on device)")


def record(self, case, variant):
    if case.rows == 16 and self.journal.knows(case) and (HERE / "killed").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return really(self, case, variant)


def forbid(event, arguments):
    if event == "open" and str(arguments[0]).startswith(f"{HERE}/reports"):
        raise PermissionError("is on another host")


if HOST:
    sys.addaudithook(forbid)
platform.node = lambda: HOST or "a"
device.gpus = gpus
Bench._make_contest = lambda self: Contest(self)
really, Bench.record = Bench.record, record
if "FAKE_FULL" in os.environ:
    store.Writer.append = append
'''


SSH = """#!/bin/sh
for word; do host=$command command=$word; done
case "$*" in *ServerAliveInterval*) ;; *) exit 1 ;; esac
[ $host = down ] || [ -e $host-is-down ] && exit 255
[ $host = old ] && export FAKE_NAMES="NVIDIA H100"
[ $host = other ] && echo "# changed" >> kernels/mine/own.py
unshare -rn true 2>/dev/null && away="unshare -rn"
FAKE_HOST=$host PYTHONPATH="bin:$PWD:$PYTHONPATH" exec $away sh -c "$command"
"""


class Command:
    def __init__(self, folder):
        project(folder)
        (folder / "shapes.yaml").write_text(SHAPES)
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "bin").mkdir()
        (folder / "bin" / "sitecustomize.py").write_text("import conftest")
        (folder / "bin" / "ssh").write_text(SSH)
        (folder / "bin" / "ssh").chmod(0o755)
        self.folder, self.mark = folder, f"{os.getpid()}-{folder}"

    def start(self, *options, **environment):
        words = ["-m", "pytest", "-p", "softbench.plugin", "-p", "no:cacheprovider", "--softbench"]
        own = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "COLUMNS": "160"}
        own["PATH"] = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_XDIST", "CUDA_"))}
        return warm.popen(PYTHONPATH)(
            [sys.executable, *words, "--softbench-impls=kernels", "-k", "own_ and not own_zeros", *options],
            cwd=self.folder,
            env={**inherited, **own, MARK: self.mark, **environment},
            **HEARD,
        )

    def run(self, *options, code=0, **environment):
        process = self.start(*options, **environment)
        text, _ = process.communicate(timeout=60)
        assert process.returncode == code, text
        return text

    def log(self):
        """Contests as they began: rows, CUDA_VISIBLE_DEVICES, process."""
        path = self.folder / "log"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def records(self):
        """The passport and the cells so far, without those that another card measured again."""
        written = self.file().read_text().rpartition("\n")[0]  # a line may be half written
        return [line for line in map(json.loads, written.splitlines()) if line.get("role") != "repeat"]

    def file(self):
        (path,) = (self.folder / "reports").glob("*.jsonl")
        return path

    def rows(self):
        return list(dict.fromkeys(cell["case"]["shape"][0] for cell in self.records()[1:]))
