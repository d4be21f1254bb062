"""What a command is told that chooses nothing, or chooses by a file of its own: one line, before anything is measured."""

import pytest
from support.children import python
from support.projects import SHAPES

from softbench import packages, plugin

pytest_plugins = ["pytester"]

CONFTEST = "raise RuntimeError('a conftest.py that nobody has named')\n"
OWN = """
profiles:
  mine:
    description: one tiny case
    groups: [{operator: softmax, dtype: float32, shapes: [[16, 256]]}]
"""


def refusal(result):
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
    (line,) = (line for line in result.errlines if line.strip())
    return line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("own_rigth", "none of * cells has 'own_rigth'; did you mean 'own_right'? *"),
        ("own_right and zzzz", "none of * cells has 'zzzz'; implementations here: *torch_eager*"),
        ("own_right and own_zeros", "none of * cells is selected; *--collect-only -q lists them"),
    ],
)
def test_a_k_that_selects_nothing_says_what_there_is(here, words, line):
    result = here("--softbench", "-k", words)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines([f"softbench: *{line}"])


def test_axes_that_select_nothing_say_what_there_is(here):
    said = refusal(here("--softbench", "--softbench-profile=both", "--softbench-columns=77", "--softbench-rows=3"))
    assert "--softbench-rows=3 --softbench-columns=77: no case of profile both is left" in said
    assert said.endswith("rows there: 4, 16; columns there: 256")


def test_the_only_profile_of_a_file_is_the_default(here, pytester):
    (pytester.path / "shapes.yaml").write_text(OWN)
    result = here("--softbench", "--collect-only", "-q", "-k", "own_right")
    result.stdout.fnmatch_lines(["shapes.yaml::softmax-float32-16x256::own_right"])


def test_without_a_default_the_profiles_are_listed(here, pytester):
    (pytester.path / "shapes.yaml").write_text(SHAPES.replace("  cpu:", "  one:"))
    said = refusal(here("--softbench"))
    assert said.endswith("no profile 'cpu', which is the default here; name one with --softbench-profile: one, both")


@pytest.mark.parametrize("inside", [True, False], ids=["in a folder of the project", "elsewhere"])
def test_a_shapes_file_runs_no_conftest(here, pytester, tmp_path_factory, inside):
    folder = pytester.mkdir("sub") if inside else tmp_path_factory.mktemp("elsewhere")
    deep = folder / "deep"
    deep.mkdir()
    for place in (folder, deep):
        (place / "conftest.py").write_text(CONFTEST)
    (deep / "x.yaml").write_text(SHAPES)
    result = here("--softbench", "--collect-only", "-q", "-k", "own_right", f"--softbench-shapes={deep / 'x.yaml'}")
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    result.stdout.fnmatch_lines([f"{'sub/deep/' if inside else ''}x.yaml::softmax-float32-16x256::own_right"])


def test_a_named_folder_is_collected_with_its_conftest_and_the_shapes_file_in_it(here, pytester):
    folder = pytester.mkdir("sub")
    (folder / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef own(): return 1\n")
    (folder / "test_own.py").write_text("def test_own(own): pass\n")
    (folder / "x.yaml").write_text(SHAPES)
    result = here("--softbench", "--softbench-shapes=sub/x.yaml", "--collect-only", "-q", "-k", "test_own or own_right", ".")
    result.stdout.fnmatch_lines_random(["sub/test_own.py::test_own", "sub/x.yaml::softmax-float32-16x256::own_right"])


def test_a_shapes_file_is_a_regular_file_of_a_bounded_size(here, pytester):
    assert "/dev/zero: is no plain file" in refusal(here("--softbench", "--softbench-shapes=/dev/zero"))
    with (pytester.path / "huge.yaml").open("wb") as file:
        file.truncate(2**33)
    assert "huge.yaml: is longer than 16 MiB" in refusal(here("--softbench", "--softbench-shapes=huge.yaml"))


@pytest.mark.parametrize("option", ["profile", "resume", "baseline"])
def test_an_option_without_a_value_is_refused(here, option):
    assert f"--softbench-{option}: no value is given after its '='" in refusal(here("--softbench", f"--softbench-{option}="))


def test_options_without_softbench_are_refused(pytester):
    result = pytester.runpytest_inprocess("-p", "softbench.plugin", "--softbench-profile=cpu")
    assert refusal(result) == "ERROR: softbench: --softbench-profile does nothing without --softbench; add it"


def test_options_in_addopts_do_not_disturb_plain_pytest(pytester):
    pytester.makeini("[pytest]\naddopts = --softbench-profile=cpu\n")
    pytester.makepyfile("def test_mine(): pass")
    assert pytester.runpytest_inprocess("-p", "softbench.plugin").ret == pytest.ExitCode.OK


def test_another_system_is_refused_in_a_line(here, monkeypatch):
    monkeypatch.setattr(plugin, "PLATFORM", "win32")
    assert "softbench: measures on Linux only, and this is win32" in refusal(here("--softbench"))


@pytest.mark.parametrize("workers", [["-n8"], ["-n", "8"], ["--numprocesses=8"]])
def test_workers_without_xdist_are_told_what_to_install(here, monkeypatch, workers):
    monkeypatch.setattr(packages, "is_missing", lambda name: name == "xdist")
    said = refusal(here("--softbench", *workers))
    assert said.endswith("xdist is missing: pip install 'softbench[xdist]'")


def test_the_words_of_records_are_public_and_cost_nothing_before_they_are_used():
    code = "import sys, softbench; assert 'softbench.model' not in sys.modules; from softbench import Case, Record, Run"
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
