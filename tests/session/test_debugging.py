"""`--softbench-debug`: one cell in pytest's own process."""

import pytest
from support.projects import bench, project

RAISES = """
import os
from softbench import implementation

@implementation(operator="softmax", requires=["torch"])
def own_raising(case):
    def launch(x):
        print("launched in", os.getpid())
        raise ValueError("no such tile")
    return launch
"""
LOOKING = """
class Looking:
    quitting = False
    def reset(self): pass
    def interaction(self, frame, error):
        last = getattr(error, '__traceback__', error)  # older pytests hand over the traceback
        while last.tb_next:
            last = last.tb_next
        print('the debugger sees x of', tuple(last.tb_frame.f_locals['x'].shape))
"""


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("own_right", 0, "1 passed"),
        ("own_zeros", 1, "INCORRECT: every element is 0"),
        ("own_refusing", 0, "UNSUPPORTED: only on Sundays"),
        ("own_lacking", 0, "UNAVAILABLE: distribution-that-nobody-has"),
    ],
)
def test_a_cell_ends_as_in_a_run_and_leaves_no_record(tmp_path, name, code, words):
    done = bench(project(tmp_path), "--softbench-debug", "-rs", "-k", name, code=code)
    assert words in done.stdout
    assert "one cell in this process; nothing is timed" in done.stdout
    assert not (tmp_path / "reports").exists()


def test_a_debugger_stands_where_the_kernel_raised(tmp_path):
    folder = project(tmp_path, raising=RAISES)
    (folder / "conftest.py").write_text("import os\nprint('pytest is', os.getpid())\n")
    (folder / "looking.py").write_text(LOOKING)
    done = bench(folder, "--softbench-debug", "--pdb", "--pdbcls=looking:Looking", "-s", "-k", "own_raising", code=1)
    assert "the debugger sees x of (16, 256)" in done.stdout
    here = done.stdout.split("pytest is ")[1].split()[0]
    assert f"launched in {here}" in done.stdout
    assert "raising.py:9: ValueError" in done.stdout
    assert "handler.py" not in done.stdout


def test_of_an_implementation_with_parameters_the_first_combination_runs(tmp_path):
    text = RAISES.replace("])", '], params={"stages": [2, 3]})').replace("(case)", "(case, stages)")
    done = bench(project(tmp_path, raising=text), "--softbench-debug", "-k", "own_raising")
    assert "FAILED shapes.yaml::softmax-float32-16x256::own_raising[stages=2]" in done.stdout
    assert "1 failed" in done.stdout
    assert "stages=3" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("-k", "own_right or own_zeros"),
            "2 are selected; name one by -k or an id, such as shapes.yaml::softmax-float32-16x256::own_right",
        ),
        (("-k", "own_right", "-n", "2"), "runs a cell in this process, and -n in others"),
    ],
)
def test_what_cannot_be_debugged_is_refused(tmp_path, arguments, words):
    done = bench(project(tmp_path), "--softbench-debug", *arguments, code=4)
    assert words in done.stderr
