"""docs/how-to.md: its kernels pass, its commands work, and what it benchmarks selects the cells that it speaks of."""

import re

import pytest
from support.readers import HOW_TO, expected, ran, write_blocks
from support.recipes import CASE, PUBLISHED, ROOT, options, run_softbench, two_runs, unknown

from softbench import cli, resources
from softbench.cases import registry
from softbench.measure import device

pytest_plugins = ["pytester"]

LINES = [words for block in HOW_TO for words in block.commands]
BENCHMARKS = [words for words in LINES if "pytest" in words]
RUNS = ("--softbench-resume", "--softbench-baseline", "--softbench-against", "--softbench-fail-on")
GPUS = ("-n", "--softbench-traffic", "--softbench-device-clock")
TESTED_ELSEWHERE = (*RUNS, *GPUS, "--benchmark-json")
"""They need a run, a GPU or samples that are not here: test_resume, test_regression, test_xdist, tests/gpu, test_benchmark_json."""
COLLECT = ("--collect-only", "-q")


def test_every_block_is_of_a_known_kind():
    assert {block.language for block in HOW_TO} == {"sh", "python", "yaml"}
    assert all((block.language == "sh") == (block.mark == "") and block.mark in ("", "file") for block in HOW_TO)
    assert {words[0] for words in LINES if "pytest" not in words} == {"softbench"}


@pytest.mark.parametrize("words", [words for words in LINES if words[0] == "softbench"], ids=" ".join)
def test_every_command_works(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(two_runs(tmp_path))
    assert run_softbench(words, monkeypatch) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", BENCHMARKS, ids=" ".join)
def test_every_benchmark_selects_cells(pytester, monkeypatch, words):
    write_blocks(pytester.path, "python")
    if any(word.startswith("--softbench-shapes=") or word == "--softbench-profile=model" for word in words):
        write_blocks(pytester.path, "yaml")
    else:
        assert unknown(words) == []
    assert cli.main(["new", "mine"]) == 0
    monkeypatch.setattr(device, "gpus", lambda: ())
    result = pytester.runpytest_inprocess("-p", "softbench.plugin", *COLLECT, *collectable(words))
    cells = [line for line in result.outlines if re.match(r"\S+\.yaml::", line)]
    assert result.ret == 0, result.outlines
    assert cells
    expression = words[words.index("-k") + 1] if "-k" in words else ""
    known = {v.implementation for v in registry.find([resources.bundled_impls(), pytester.path / "kernels"])}
    for word in set(re.findall(r"[\w-]+", expression)) - {"and", "or", "not"}:
        assert word in known or any(word in cell for cell in cells), word


def test_its_program_reads_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(two_runs(tmp_path))
    (program,) = (block for block in HOW_TO if block.value == "read.py")
    exec(compile(program.text, program.value, "exec"), {})
    shown = capsys.readouterr().out
    assert re.search(rf"^run-2 NVIDIA H200\n{CASE.id}::mine PASSED [45]\.\d\d us\n", shown)
    assert f"\n{PUBLISHED.id}::cuda_naive INCORRECT nan\n" in shown


def test_its_program_tunes_a_kernel(tmp_path, monkeypatch, capsys):
    (tmp_path / "kernels").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (program,) = (block for block in HOW_TO if block.value == "tune.py")
    exec(compile(program.text, program.value, "exec"), {})
    assert re.fullmatch(r"(8|32|64) rows: \d+\.\d\d us\n", capsys.readouterr().out)
    assert len(list((tmp_path / "reports").glob("*.jsonl"))) == 3


def test_what_selects_nothing_ends_with_its_own_code(pytester, monkeypatch):
    """As docs/options.md says of the exit codes."""
    monkeypatch.setattr(device, "gpus", lambda: ())
    result = pytester.runpytest_inprocess("-p", "softbench.plugin", "--softbench", "-k", "nobody_is_called_so")
    assert "| 5 | No cell was selected; one line says what there is. |" in (ROOT / "docs" / "options.md").read_text(
        encoding="utf-8"
    )
    assert result.ret == 5


def collectable(words):
    """A line's arguments without what is tested elsewhere."""
    given = words[words.index("pytest") + 1 :]
    assert {word.split("=")[0] for word in given if word.startswith("--softbench")} <= options()
    if "-n" in given:
        del given[given.index("-n") + 1]
    return [word for word in given if word.split("=")[0] not in (*TESTED_ELSEWHERE, *COLLECT)]


@pytest.mark.slow
def test_its_kernels_do_what_it_says(tmp_path):
    pytest.importorskip("triton")
    pytest.importorskip("cuda.core")
    assert ran(tmp_path) == expected(my_norm="PASSED", any_view="CHECKED", aligned_only="PASSED", row_block="COMPILED")
