"""The pages say what the code does."""

import argparse
import re

import pytest
from support.documents import HTILE, OPTIONS, PAGES, README, ROOT, rows
from support.grids import over
from support.projects import bench

from softbench.session import settings

CUTE = ROOT / "impls" / "cute"


def declared():
    parser = argparse.ArgumentParser()
    parser.addoption = parser.add_argument  # pytest's name for the same
    settings.add_options(parser)
    return {action.option_strings[0]: action for action in parser._actions if action.option_strings[0] != "-h"}


def test_every_option_is_documented():
    documented = [re.fullmatch(r"`(--softbench[a-z-]*)(?:=([][A-Z,]+))?`", row[0]) for row in rows(OPTIONS, "option")]
    assert all(documented)
    found = {match[1]: match[2] for match in documented}
    assert found == {name: action.metavar for name, action in declared().items()}
    defaults = {row[0].strip("`").split("=")[0]: row[2] for row in rows(OPTIONS, "option")}
    assert defaults["--softbench-budget"] == f"{settings.DEFAULT_BUDGET_S:g}, without a GPU {settings.CPU_BUDGET_S:g}"
    assert defaults["--softbench-timeout"] == f"{settings.DEFAULT_TIMEOUT_S:g}"


def test_variables_are_documented_and_options_on_pages_exist():
    sources = [*(ROOT / "softbench").rglob("*.py"), *(ROOT / "impls").rglob("*.py")]
    read = set(re.findall(r'environ[^\n]*"(SOFTBENCH_[A-Z_]+)"', "".join(path.read_text() for path in sources)))
    assert "SOFTBENCH_CACHE_DIR" in read
    assert {f"`{name}`" for name in read} <= {row[0] for row in rows(OPTIONS, "variable")}
    named = {(page, name) for page in PAGES for name in re.findall(r"--softbench[a-z-]*", page.read_text())}
    assert not [each for each in named if each[1] not in declared()]


def test_every_module_says_its_one_job_in_its_first_line():
    """docs/design.md sends readers there. The rooms themselves: tests/project/test_imports.py."""
    first = {path: path.read_text().partition("\n")[0] for path in (ROOT / "softbench").rglob("*.py")}
    assert not [path for path, line in first.items() if not re.match(r'"""\S.{20}', line)]


def test_names_on_the_htile_page_exist():
    """All that looks like a class, a constant or a function in prose: `Reduction`, `RETAIN_BYTES`, `row_reduce`."""
    source = "".join(path.read_text() for path in CUTE.rglob("*.py"))
    names = set(re.findall(r"`([A-Za-z_]\w*)`", re.sub(r"```.*?```", "", HTILE, flags=re.S)))
    assert {"Reduction", "RETAIN_BYTES", "predicate_k"} <= names
    assert not [name for name in names if not re.search(rf"\b{name}\b", source)]


def test_named_tox_environments_exist():
    text = (ROOT / "tox.ini").read_text()
    environments = set(re.findall(r"^\[testenv:(\w+)\]", text, re.M)) | set(re.findall(r"^    (h\d+):", text, re.M))
    named = set(re.findall(r"tox -e (\w+)", "".join(page.read_text() for page in PAGES)))
    assert {"cpu", "test", "h200"} <= named <= environments
    assert "-e test" in (ROOT / ".ci" / "run").read_text()


def test_readme_and_package_name_the_same_pythons():
    text = (ROOT / "pyproject.toml").read_text()
    least, below = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"$', text, re.M).groups()
    classified = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)
    assert classified == [str(minor) for minor in range(int(least), int(below))]
    assert f"Python 3.{least} to 3.{classified[-1]} and" in README


def test_named_profiles_exist():
    profiles = set(re.findall(r"^  ([\w-]+):$", (ROOT / "shapes.yaml").read_text(), re.M))
    named = re.findall(r"--softbench-profile=([a-z,-]+)", README)
    assert named
    assert {profile for names in named for profile in names.split(",")} <= profiles
    assert set(re.findall(r"`([a-z-]+)`", " ".join(row[0] for row in rows(OPTIONS, "profiles")))) == profiles


@over("page", PAGES)
def test_links_lead_to_files_and_headings_and_named_files_exist(page):
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", prose(page))
    assert not [path for path, _ in links if not (page.parent / path).exists()]
    there = [(page.parent / path if path else page, anchor) for path, anchor in links if anchor]
    assert not [(found, anchor) for found, anchor in there if anchor not in headings(found)]
    named = set(re.findall(r"(?<![\w/.~])((?:softbench|tests|impls|docs|reports)/[\w./-]*\w)", page.read_text()))
    assert not [path for path in named if not TO_BE_WRITTEN.search(path) and not (ROOT / path).exists()]


def prose(page):
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.S)


def headings(page):
    """The anchors of a page's headings, as GitHub makes them."""
    titles = (title.lower() for title in re.findall(r"^#+ (.+)$", prose(page), re.M))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


TO_BE_WRITTEN = re.compile(r"/(?:RUN|latest|row_warp|l2norm|slowest)\.")
"""Runs, and files that a reader of CONTRIBUTING.md writes."""


def test_the_readme_is_short_and_warns_of_implementation_files():
    assert README.count("<!-- leaderboard -->") == README.count("<!-- /leaderboard -->") == 1
    assert README.count("\n") <= 120
    assert "Implementation files are programs and run with your rights: run only those that you trust." in README


def test_the_index_lists_every_page():
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert {link for link in re.findall(r"\]\(([^)#]+)\)", index) if not link.startswith("..")} == pages - {"README.md"}


@pytest.mark.slow
def test_the_kernel_of_the_readme_is_right(tmp_path):
    """Run by the README's own command, in Triton's interpreter: 781 columns leave a part of its tile masked."""
    pytest.importorskip("triton")
    code = re.search(r"<!-- kernel -->\n```python\n(.*?)```", README, re.S)
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "mine.py").write_text(code[1])
    done = bench(tmp_path, "--softbench-profile=cpu", "--softbench-columns=781", "-k", "my_softmax", "-v")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert done.stdout.count("CHECKED") >= 2
