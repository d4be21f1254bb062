"""--softbench-resume: what is finished stays, what is not is run again whole, and unlike is not mixed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: F401  # pytester unloads what a run loaded, and yaml's C half does not survive a second import
from projects import OWN, bench, project

from softbench import store

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project in which a run of everything of our own over four cases was made."""
    folder = project(tmp_path_factory.mktemp("whole"))
    bench(folder, "--softbench-profile=both", "-k", "own_")
    return folder


def copied(whole: Path, folder: Path) -> tuple[Path, Path]:
    """The project of the whole run with its records, somewhere else: the folder and the file of the run."""
    shutil.copytree(whole, folder, dirs_exist_ok=True)
    for page in (folder / "reports").glob("*.html"):
        page.unlink()
    (path,) = (folder / "reports").glob("*.jsonl")
    return folder, path


def test_resuming_a_finished_run_measures_nothing(whole: Path, tmp_path: Path) -> None:
    folder, path = copied(whole, tmp_path)
    before = path.read_bytes()
    assert json.loads(before.splitlines()[0])["cases"] == 4
    done = bench(folder, "--softbench-profile=both", "-k", "own_", "--softbench-resume=latest")
    assert done.returncode == 1
    assert re.search(r"6 failed, 8 passed, 8 skipped, \d+ deselected, 2 xfailed", done.stdout)
    assert path.read_bytes() == before
    assert path.with_suffix(".html").exists()


def test_resuming_runs_the_missing_case_only(whole: Path, tmp_path: Path) -> None:
    """The writer was killed within the last case's lines: that case is run again whole, the others are not."""
    folder, path = copied(whole, tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    kept = b"".join(lines[:-2])
    path.write_bytes(kept + lines[-2][:50])
    done = bench(folder, "--softbench-profile=both", "-k", "own_", "--softbench-resume", path.stem)
    assert done.returncode == 1
    assert re.search(r"6 failed, 8 passed, 8 skipped, \d+ deselected, 2 xfailed", done.stdout)
    now = path.read_bytes()
    assert now.startswith(kept)
    added = [json.loads(line) for line in now[len(kept) :].splitlines()]
    assert {"x".join(map(str, c["case"]["shape"])) + c["case"]["dtype"] for c in added} == {"16x256float16"}
    assert len(added) == len(OWN) + 2
    assert len(store.read(path).records) == 4 * (len(OWN) + 2)


def test_a_changed_kernel_runs_its_cases_again_whole(whole: Path, tmp_path: Path) -> None:
    """Also the variants that this command does not select: their old samples cannot be paired with new ones."""
    folder, path = copied(whole, tmp_path)
    source = folder / "kernels" / "mine" / "own.py"
    source.write_text(source.read_text().replace("x * 0", "x * 0 + 1"))
    before = path.read_bytes()
    select = ["--softbench-profile=both", "-k", "own_zeros and float16-4x256"]
    done = bench(folder, *select, f"--softbench-resume={path}")
    assert "1 failed" in done.stdout
    added = [json.loads(line) for line in path.read_bytes()[len(before) :].splitlines()]
    assert {c["variant"]["implementation"] for c in added if c.get("role") == "entrant"} == set(OWN)
    assert "softmax, float32: latency (ms)" in done.stdout  # the tables show the run, not what was added
    assert len(store.read(path).records) == 4 * (len(OWN) + 2)


ENDED = re.compile(r"^\d+ of \d+ cases?: the run was ended before it had the others;.*$", re.M)


def test_a_run_that_stops_early_says_so_until_it_is_completed(tmp_path: Path) -> None:
    """-x ends it behind the first case; what -k deselects is not asked for, and a resume asks for what it selects."""
    folder = project(tmp_path)
    select = ["--softbench-profile=both", "-k", "own_zeros and not float32-4x256"]
    done = bench(folder, *select, "-x")
    assert [line.split(":")[0] for line in ENDED.findall(done.stdout)] == ["1 of 3 cases"]
    (path,) = (folder / "reports").glob("*.jsonl")
    assert "1 of 3 cases: the run was ended" in path.with_suffix(".html").read_text()

    done = bench(folder, "--softbench-profile=both", "-k", "own_zeros", "-x", "--softbench-resume=latest")
    assert [line.split(":")[0] for line in ENDED.findall(done.stdout)] == ["2 of 4 cases"]
    first = path.read_bytes().partition(b"\n")[2]

    done = bench(folder, *select, "--softbench-resume=latest")
    assert not ENDED.findall(done.stdout)
    assert "the run was ended" not in path.with_suffix(".html").read_text()
    header, *cells = map(json.loads, path.read_text().splitlines())
    assert header["cases"] == len({json.dumps(cell["case"]) for cell in cells})
    assert first in path.read_bytes()


@pytest.mark.parametrize(
    ("part", "key", "value", "words"),
    [
        ("device", "name", "Another CPU", "it was made with name 'Another CPU', and here it is"),
        ("device", "kind", "cuda", "it was made with kind 'cuda', and here it is 'cpu'"),
        ("packages", "torch", "1.0", "it was made with torch 1.0, and here it is"),
        ("packages", "triton", None, "it was made with triton None, and here it is"),
    ],
)
def test_resuming_on_another_machine_is_refused(
    whole: Path, here: Any, pytester: pytest.Pytester, part: str, key: str, value: str | None, words: str
) -> None:
    (origin,) = (whole / "reports").glob("*.jsonl")
    header, *cells = origin.read_text().splitlines(keepends=True)
    data = json.loads(header)
    if value is None:
        if key not in data[part]:
            pytest.skip(f"{key} is not installed")
        del data[part][key]
    else:
        data[part][key] = value
    (pytester.path / "reports").mkdir()
    path = pytester.path / "reports" / "old.jsonl"
    path.write_text(json.dumps(data) + "\n" + "".join(cells))
    before = path.read_bytes()
    result = here("--softbench", "--softbench-profile=both", "-k", "own_right", "--softbench-resume=old")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: softbench: --softbench-resume: old.jsonl cannot be gone on with: {words}*"])
    assert path.read_bytes() == before
