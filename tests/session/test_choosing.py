"""What a command is told that chooses nothing, or chooses by a file of its own: one line, before anything is measured."""

import pytest
from support.children import python
from support.grids import over
from support.projects import SHAPES

from softbench import packages, plugin

pytest_plugins = ["pytester"]

CONFTEST = "raise RuntimeError('a conftest.py that nobody has named')\n"


@over(
    ("words", "line"),
    [
        ("own_rigth", "none of * cells has 'own_rigth'; did you mean 'own_right'? *"),
        ("own_right and zzzz", "none of * cells has 'zzzz'; implementations here: *torch_eager*"),
        ("own_right and own_zeros", "none of * cells is selected; *--collect-only -q lists them"),
    ],
)
def test_a_k_that_selects_nothing_says_what_there_is(here, words, line):
    result = here("-k", words)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines([f"softbench: *{line}"])


def test_the_only_profile_of_a_file_is_the_default(collected, pytester):
    (pytester.path / "shapes.yaml").write_text(SHAPES.partition("  both:")[0].replace("cpu:", "mine:"))
    assert collected("-k", "own_right") == ["shapes.yaml::softmax-float32-16x256::own_right"]


def test_without_a_default_the_profiles_are_listed(refusal, pytester):
    (pytester.path / "shapes.yaml").write_text(SHAPES.replace("  cpu:", "  one:"))
    assert refusal().endswith("no profile 'cpu', which is the default here; name one with --softbench-profile: one, both")


@pytest.mark.parametrize("inside", [True, False], ids=["in a folder of the project", "elsewhere"])
def test_a_shapes_file_runs_no_conftest(collected, pytester, tmp_path_factory, inside):
    folder = pytester.mkdir("sub") if inside else tmp_path_factory.mktemp("elsewhere")
    deep = folder / "deep"
    deep.mkdir()
    for place in (folder, deep):
        (place / "conftest.py").write_text(CONFTEST)
    (deep / "x.yaml").write_text(SHAPES)
    found = collected("-k", "own_right", f"--softbench-shapes={deep / 'x.yaml'}")
    assert found == [f"{'sub/deep/' if inside else ''}x.yaml::softmax-float32-16x256::own_right"]


def test_a_named_folder_is_collected_with_its_conftest_and_the_shapes_file_in_it(collected, pytester):
    folder = pytester.mkdir("sub")
    (folder / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef own(): return 1\n")
    (folder / "test_own.py").write_text("def test_own(own): pass\n")
    (folder / "x.yaml").write_text(SHAPES)
    found = collected("--softbench-shapes=sub/x.yaml", "-k", "test_own or own_right", ".")
    assert set(found) == {"sub/test_own.py::test_own", "sub/x.yaml::softmax-float32-16x256::own_right"}


def test_a_shapes_file_has_a_bounded_size(refusal, pytester):
    with (pytester.path / "huge.yaml").open("wb") as file:
        file.truncate(2**33)
    assert "huge.yaml: is longer than 16 MiB" in refusal("--softbench-shapes=huge.yaml")


def test_options_without_softbench_are_refused(pytester):
    result = pytester.runpytest_inprocess("-p", "softbench.plugin", "--softbench-profile=cpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str() == "ERROR: softbench: --softbench-profile does nothing without --softbench; add it\n"


def test_options_in_addopts_do_not_disturb_plain_pytest(pytester):
    pytester.makeini("[pytest]\naddopts = --softbench-profile=cpu\n")
    pytester.makepyfile("def test_mine(): pass")
    assert pytester.runpytest_inprocess("-p", "softbench.plugin").ret == pytest.ExitCode.OK


def test_another_system_is_refused_in_a_line(refusal, monkeypatch):
    monkeypatch.setattr(plugin, "PLATFORM", "win32")
    assert "softbench: measures on Linux only, and this is win32" in refusal()


@over("workers", [["-n8"], ["-n", "8"], ["--numprocesses=8"]])
def test_workers_without_xdist_are_told_what_to_install(refusal, monkeypatch, workers):
    monkeypatch.setattr(packages, "is_missing", lambda name: name == "xdist")
    assert refusal(*workers).endswith("xdist is missing: pip install 'softbench[xdist]'")


def test_the_words_of_records_are_public_and_cost_nothing_before_they_are_used():
    code = "import sys, softbench; assert 'softbench.model' not in sys.modules; from softbench import Case, Record, Run"
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
