"""Pages that show commands, files and output, and a reader who does what they say.

A block is a fence with a language: `sh` is typed, `python` and `yaml` are written to files, `text` is what the block before
it prints. A comment right above says more:

<!-- file: PATH -->     written to PATH           <!-- append: PATH -->  appended to it
<!-- exit: N -->        ends with N, and not 0    <!-- exact -->         printed with these very figures
<!-- gpu -->            needs a GPU               <!-- install -->       changes the machine: not run by tests
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from softbench import cli, doctor, resources
from softbench.cli import bisect
from softbench.cli.parser import parser
from support import bisected, warm
from support.builders import CASE, overflowed, roof_of, times, written
from support.options import Group
from support.paths import ROOT
from support.projects import PYTHONPATH

MARKS = ("", "file", "append", "exit", "exact", "gpu", "install")
STANDS_FOR = {"RUN": "run-1", "A": "run-1", "B": "run-2", "CASE": CASE.id, "v1.2": "v1"}
"""Words of the pages, in the folder of `two_runs`."""
_BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^>\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_MODULES = {"pytest": "pytest -p softbench.plugin", "softbench": "softbench"}
_SHIM = '#!/bin/sh\nexec "{python}" -m {module} "$@"\n'
_FIGURE = re.compile(r"±?>?[+-]?\d[\d.,]*(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A fence; the comment above it is mark and value."""

    language: str
    text: str
    mark: str
    value: str
    line: int

    @property
    def commands(self):
        lines = self.text.splitlines() if self.language == "sh" else []
        found = (shlex.split(line, comments=True) for line in lines)
        return [words for words in found if words]


def blocks(page):
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        mark, _, value = (match["mark"] or "").partition(": ")
        found.append(Block(match["language"], match["text"], mark, value, text.count("\n", 0, match.start()) + 1))
    return found


class Reader:
    """Somebody with one shell, in a folder beside the checkout; without a GPU, our commands start warm."""

    def __init__(self, folder, *, has_gpu=True, path=PYTHONPATH):
        self._has_gpu, self._path = has_gpu, path
        self.folder = folder / "mine"
        self.folder.mkdir()
        (folder / "softbench").symlink_to(ROOT)
        programs = folder / "bin"
        programs.mkdir()
        for name, module in _MODULES.items():
            (programs / name).write_text(_SHIM.format(python=sys.executable, module=module))
            (programs / name).chmod(0o755)
        self._state = folder / "environment"
        own = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": path, "COLUMNS": "120"}
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
        self._environment = {**outer, "OMP_NUM_THREADS": "1", **own}

    def write(self, block):
        path = self.folder / block.value
        path.parent.mkdir(parents=True, exist_ok=True)
        before = [path.read_text(encoding="utf-8")] if block.mark == "append" else []
        path.write_text("\n\n".join([*before, block.text]), encoding="utf-8")

    def type(self, block):
        """What is exported stays, as in one shell; the first command that fails ends the block."""
        if not self._has_gpu and "$" not in block.text and {words[0] for words in block.commands} <= _MODULES.keys():
            return self._typed(block.commands)
        script = f"set -e\ntrap 'export -p > \"{self._state}\"' EXIT\n{block.text}"
        if self._state.exists():
            script = f'. "{self._state}"\n{script}'
        return subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self._environment, **warm.HEARD, timeout=900, check=False
        )

    def _typed(self, commands):
        said = ""
        for name, *words in commands:
            with warm.popen(self._path)(
                [sys.executable, "-m", *_MODULES[name].split(), *words],
                cwd=self.folder,
                env=self._environment | {"CUDA_VISIBLE_DEVICES": ""},
                **warm.HEARD,
            ) as process:
                said += process.communicate(timeout=300)[0]
            if process.returncode:
                break
        return subprocess.CompletedProcess(commands, process.returncode, said)


def missing(shown, said):
    """Lines that were not printed. Figures, ranks' marks and widths may differ, unless the block is exact."""
    if shown.mark == "exact":
        return [] if shown.text.strip() in said else [shown.text]
    printed = {_flat(line) for line in said.splitlines()}
    return [line for line in shown.text.splitlines() if line != "..." and _flat(line) not in printed]


def _flat(line):
    text = re.sub(r"# placements?\b", "# %", _FIGURE.sub("#", line))  # an interval, of many or of few
    text = re.sub(r"[-_=]{3,}", "---", text)
    return re.sub(r"^# ?[*=?] ", "# ", " ".join(text.split()))


def two_runs(folder):
    for name in ("run-1", "run-2"):
        records = [*times(CASE, mine=5_000, torch_eager=9_000), roof_of(CASE, 4_000), overflowed()]
        written(folder / "reports", *records, run_id=name)
    shutil.copytree(resources.bundled_published(), folder / "reports" / "published")
    return folder


def run_softbench(line, monkeypatch):
    """In the folder of `two_runs`, in this process: the exit code. Nothing is measured."""
    monkeypatch.setattr(doctor, "examine", lambda *given: ())  # test_cheats has what it measures
    # test_captured has what it runs, test_serve what it does until it is stopped, and test_submissions the other two.
    if line[1] in ("capture", "serve", "submit", "review"):
        return int(parser().parse_args(line[1:]).command.name != line[1])
    if line[1] == "bisect":
        monkeypatch.setattr(bisect, "_say", lambda text: None)
        monkeypatch.chdir(tempfile.mkdtemp(dir="."))
        bisected.committed(Path())
        bisected.Simulated(monkeypatch)
    words = [word.replace("CASE::NAME", f"{CASE.id}::mine").replace("CASE::", f"{CASE.id}::") for word in line[1:]]
    return cli.main([STANDS_FOR.get(word, word) for word in words])


def options():
    return set(Group().options)


def unknown(words):
    """Options, profiles and commands of ours that do not exist."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words[:1] == ["softbench"]:
        return [] if parser().parse_args(words[1:]).command else words
    if words[:1] != ["pytest"]:
        return []
    named = [word.split("=")[0] for word in words if word.startswith("--softbench")]
    asked = [word.partition("=")[2] for word in words if word.startswith("--softbench-profile=")]
    profiles = set(re.findall(r"^  ([\w-]+):$", (ROOT / "shapes.yaml").read_text(), re.M))
    return sorted(set(named) - options()) + sorted(set(",".join(asked).split(",")) - profiles - {""})
