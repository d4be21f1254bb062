"""`softbench.load`: a run for programs, and the errors that `softbench show` gives."""

import re
from pathlib import Path

import pytest
from support.builders import ended, softmax_case, timed, written
from support.children import python
from support.grids import over

import softbench
from softbench.model import Status
from softbench.records import store

CASE = softmax_case()


@pytest.fixture(autouse=True)
def file(cwd):
    records = timed(CASE, "mine", 5_000), ended(CASE, "wrong", Status.INCORRECT, "every element is 0")
    return written(cwd / "reports", *records, run_id="run-1")


@over("run", ["run-1", "latest", "reports/run-1.jsonl", Path("reports/run-1.jsonl")])
def test_a_run_is_loaded_by_id_by_file_or_as_latest(file, run):
    loaded = softbench.load(run)
    assert loaded == softbench.load(file, "elsewhere") == store.read(file)
    assert isinstance(loaded, softbench.Run)
    record = loaded.records[0]
    assert isinstance(record, softbench.Record)
    assert isinstance(record.samples[0], softbench.Samples)
    assert (record.case, record.status) == (softbench.Case(**vars(CASE)), softbench.Status.PASSED)


def test_ids_are_looked_up_in_the_folder_that_is_named(file):
    file.parent.rename("elsewhere")
    assert softbench.load("latest", "elsewhere").passport.run_id == "run-1"


@over(
    "run, words",
    [
        ("nope", "no run 'nope' in reports; the newest there: run-1"),
        ("nope.jsonl", "no run 'nope.jsonl' in reports"),
        ("reports", "no run 'reports' in reports"),
        ("notes.txt", "notes.txt:1: is no text of a softbench run"),
        ("empty.jsonl", "empty.jsonl: is empty, and no run"),
        ("damaged.jsonl", "damaged.jsonl:3: is not JSON"),
    ],
)
def test_what_cannot_be_read_is_the_line_that_show_prints(file, says, run, words):
    Path("notes.txt").write_text("profiles:\n")
    Path("empty.jsonl").write_text("")
    passport, first, _ = file.read_text().splitlines()
    Path("damaged.jsonl").write_text(f"{passport}\n{first}\n{{x}}\n{first}\n")
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        softbench.load(run)
    assert says("show", CASE.id, "--run", run, status=2) == f"softbench: {caught.value}\n"


def test_a_kernel_file_that_imports_softbench_loads_nothing_of_it():
    code = """
import sys
from softbench import Unsupported, implementation
assert not {"softbench.model", "softbench.records", "json", "gzip", "lzma"} & set(sys.modules)
from softbench import load
assert not {"torch", "yaml", "plotly", "softbench.analysis", "softbench.cases"} & set(sys.modules)
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
