"""A project whose kernel gets slower in one commit and is wrong in another, and contests without a measurement."""

import atexit
import functools
import re
import shutil
import subprocess
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path

from softbench.cases import revisions
from softbench.cli import measuring
from softbench.model import Run, Status
from support import projects
from support.builders import ended, passport, samples, softmax_case, timed, variant

CASES = (softmax_case(16, 256, "float32"), softmax_case(8, 100, "float32", timed=False))
"""Of the project; the second is only checked."""
SHAPES = f"""{projects.SHAPES.partition("  both:")[0]}
  checked:
    description: one tiny case that is only checked
    timed: false
    groups: [{{operator: softmax, dtype: float32, shapes: [[8, 100]]}}]
"""
KERNEL = """
from softbench import implementation

@implementation(operator="softmax")
def mine(case):
    import time, torch

    def launch(x):
        time.sleep({ms} / 1000)  # {note}
        return torch.softmax(x, dim=-1) * {factor}

    return launch
"""
COMMITS = (
    ("one: the first", 1, 1),
    ("two: another note", 1, 1),
    ("three: wrong", 1, 1.5),
    ("four: right again", 1, 1),
    ("five: four times the work", 4, 1),
    ("six: another note", 4, 1),
)
"""Subject, milliseconds of a launch, factor of its output."""


def git(folder, *words):
    own = ("-c", "user.name=Ann", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", "-C", folder, *own, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def committed(folder):
    """With a commit of another file after each of these. Returns the first word of a subject -> its hash."""
    made, hashes = _committed()
    shutil.copytree(made, folder, dirs_exist_ok=True)
    return hashes


@functools.cache
def _committed():
    """It takes thirty processes of git."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    kernel = folder / "kernels" / "mine" / "own.py"
    kernel.parent.mkdir(parents=True)
    (folder / "shapes.yaml").write_text(SHAPES)
    git(folder, "init", "-q")
    for number, (subject, ms, factor) in enumerate(COMMITS):
        kernel.write_text(KERNEL.format(ms=ms, note=number, factor=factor))
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", subject)
        if number == 0:
            git(folder, "tag", "v1")
        (folder / "notes.txt").write_text(str(number))
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "a note")
    lines = git(folder, "log", "--format=%H %s", "--", "kernels").splitlines()
    return folder, {line.split()[1].rstrip(":"): line.split()[0] for line in lines}


class Simulated:
    """Stands for `measuring`. The first `vague` contests cannot be told; from the run `level` on all versions are as fast."""

    level, vague = 99, 0

    def __init__(self, monkeypatch):
        self.runs = []
        monkeypatch.setattr(measuring, "measure", self.measure)
        monkeypatch.setattr(measuring, "cells", self.cells)

    def cells(self, arguments):
        return [(case.id, f"mine@{name}") for case in CASES for name in self._versions(arguments)]

    def measure(self, arguments):
        self.runs.append(list(arguments))
        asked = [case for case in CASES if any(f"::{case.id}::" in word for word in arguments)]
        placements = 1 if len(self.runs) <= self.vague else 8
        found = self._versions(arguments).items()
        records = [self._record(case, name, source, placements) for case in asked for name, source in found]
        return Run(passport(run_id=f"run-{len(self.runs)}", settings={"budget_s": 5.0}), tuple(records))

    def _versions(self, arguments):
        known = {}
        for word in arguments:
            if commit := re.fullmatch("--softbench-against=git:([0-9a-f]{40})", word):
                _, (own,) = revisions.at(revisions.Commit(commit[1], "", "", ""), Path("kernels"))
                known[commit[1][:12]] = Path(own.path).read_text()
        return known

    def _record(self, case, name, source, placements):
        who, ms = f"mine@{name}", float(re.search(r"sleep\(([\d.]+)", source)[1])
        is_level = len(self.runs) >= self.level
        if "* 1\n" not in source:
            return ended(case, who, Status.INCORRECT, "row 0 is wrong")
        if not case.timed:
            return ended(case, who, Status.CHECKED, "right")
        ns = 1e6 if is_level else ms * 1e6 + zlib.crc32(source.encode()) % 13  # another draw for each, and the same in each run
        seeded = samples(ns, placements=placements)
        return replace(timed(case, who, ms * 1e6), samples=(seeded,), variant=variant(who))
