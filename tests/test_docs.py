"""The pages say what the code does: options, statuses, modules, constants, commands, links, and the README's kernel."""

from __future__ import annotations

import argparse
import csv
import fnmatch
import importlib
import io
import math
import os
import re
import statistics
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from softbench import cli, export, leaderboard, model, settings, stats, store, tables

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "reports" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
README = PAGES[0].read_text()
DESIGN, MEASURING, OPTIONS, HTILE, NOTES = (
    (ROOT / "docs" / f"{name}.md").read_text() for name in ("design", "measuring", "options", "htile", "performance")
)
CUTE = ROOT / "impls" / "cute"


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of the table whose header line begins with `| header |`."""
    lines = page[page.index(f"| {header} |") :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def declared() -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    parser.addoption = parser.add_argument  # pytest's name for the same
    settings.add_options(parser)
    return {action.option_strings[0]: action for action in parser._actions if action.option_strings[0] != "-h"}


def test_every_option_is_documented_with_its_value():
    documented = [re.fullmatch(r"`(--softbench[a-z-]*)(?:=([A-Z]+))?`", row[0]) for row in rows(OPTIONS, "option")]
    assert all(documented)
    found = {match[1]: match[2] for match in documented}
    assert found == {name: action.metavar for name, action in declared().items()}


def test_documented_defaults_are_those_of_the_code():
    defaults = {row[0].strip("`").split("=")[0]: row[2] for row in rows(OPTIONS, "option")}
    assert defaults["--softbench-budget"] == f"{settings.DEFAULT_BUDGET_S:g}"
    assert defaults["--softbench-timeout"] == f"{settings.DEFAULT_TIMEOUT_S:g}"


def test_every_environment_variable_is_documented():
    sources = [*(ROOT / "softbench").rglob("*.py"), *(ROOT / "impls").rglob("*.py")]
    read = set(re.findall(r'environ[^\n]*"(SOFTBENCH_[A-Z_]+)"', "".join(path.read_text() for path in sources)))
    assert "SOFTBENCH_CACHE_DIR" in read
    assert {f"`{name}`" for name in read} <= {row[0] for row in rows(OPTIONS, "variable")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_name_only_options_that_exist(page):
    named = set(re.findall(r"--softbench[a-z-]*", page.read_text()))
    assert named <= set(declared())


def test_every_status_is_documented():
    documented = {row[0]: row[2] for row in rows(DESIGN, "status")}
    outcome = {status.value: "passed" if status.is_success else "skipped" for status in model.Status}
    outcome |= {status.value: "failed" for status in model.Status if status.is_failure}
    assert documented == outcome


def test_every_module_is_documented():
    documented = [row[0].strip("`") for row in rows(DESIGN, "module of `softbench/`")]
    modules = {path.stem for path in (ROOT / "softbench").glob("*.py")} - {"__init__", "__main__"}
    modules |= {path.parent.name for path in (ROOT / "softbench").glob("*/__init__.py")}
    assert sorted(documented) == sorted(modules)


@pytest.mark.parametrize("row", rows(MEASURING, "constant"), ids=lambda row: row[0].strip("`"))
def test_constants_have_the_documented_value(row):
    module, _, name = row[0].strip("`").rpartition(".")
    value = getattr(importlib.import_module(module), name)
    assert row[1] == (", ".join(map(str, value)) if isinstance(value, tuple) else f"{value:.10g}")


@pytest.mark.parametrize("row", rows(HTILE, "constant of `htile/layouts.py`"), ids=lambda row: row[0].strip("`"))
def test_the_layouts_constants_have_the_documented_value(row):
    assert row[1] == str(getattr(importlib.import_module("impls.cute.htile.layouts"), row[0].strip("`")))


def test_every_file_of_htile_is_documented():
    documented = [row[0].strip("`") for row in rows(HTILE, "file of `htile/`")]
    files = {path.relative_to(CUTE / "htile").as_posix() for path in (CUTE / "htile").rglob("*.py")}
    assert sorted(documented) == sorted(file for file in files if not file.endswith("__init__.py"))


def test_the_kernel_of_the_htile_page_is_the_kernel():
    shown = re.search(r"```python\n(.*?)```", HTILE, re.S)
    assert shown
    source = (CUTE / "kernels" / "softmax.py").read_text()
    assert shown[1].strip() in textwrap.dedent(source[source.index("        overlap(") :])


def test_names_on_the_htile_page_exist():
    """Whatever looks like a class or a constant, or is called, in prose: `VectorCopy`, `RETAIN_BYTES`, `row_reduce`."""
    source = "".join(path.read_text() for path in CUTE.rglob("*.py"))
    prose = re.sub(r"```.*?```", "", HTILE, flags=re.S)
    names = set(re.findall(r"`([A-Za-z_]\w*)`", prose))
    assert {"VectorCopy", "RETAIN_BYTES", "predicate_k"} <= names
    assert not [name for name in names if not re.search(rf"\b{name}\b", source)]


def test_named_tox_environments_exist():
    text = (ROOT / "tox.ini").read_text()
    environments = set(re.findall(r"^\[testenv:(\w+)\]", text, re.M)) | set(re.findall(r"^    (h\d+):", text, re.M))
    named = set(re.findall(r"tox -e (\w+)", "".join(page.read_text() for page in PAGES)))
    assert {"cpu", "test", "h200"} <= named <= environments
    assert "-e test" in (ROOT / ".ci" / "run").read_text()


def test_named_profiles_exist():
    profiles = set(re.findall(r"^  ([\w-]+):$", (ROOT / "shapes.yaml").read_text(), re.M))
    named = re.findall(r"--softbench-profile=([a-z,-]+)", README)
    assert named
    assert {profile for names in named for profile in names.split(",")} <= profiles


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
    assert not [link for link in links if not (page.parent / link).exists()]


def test_the_leaderboard_has_its_place():
    assert README.count("<!-- leaderboard -->") == README.count("<!-- /leaderboard -->") == 1


@pytest.mark.slow
def test_the_kernel_of_the_readme_is_right(tmp_path):
    """Run by the README's own command, in Triton's interpreter: 781 columns leave a part of its tile masked."""
    pytest.importorskip("triton")
    code = re.search(r"<!-- kernel -->\n```python\n(.*?)```", README, re.S)
    assert code
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "mine.py").write_text(code[1])
    chosen = ["--softbench-profile=cpu", "--softbench-columns=781", "-k", "my_softmax", "-v", "-p", "softbench.plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--softbench", "--softbench-impls=kernels", *chosen],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert done.stdout.count("CHECKED") >= 2


def test_the_readmes_leaderboard_is_what_the_committed_records_say():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("<!-- leaderboard -->")[2].partition("<!-- /leaderboard -->")[0]
    some, whole = (
        store.read(ROOT / path) for path in re.findall(r"\[its records\]\((reports/h200/\S+\.jsonl\.gz)\)", section)
    )
    (pattern,) = re.findall(r"--cases '(\S+)'", section)
    records = tuple(record for record in some.records if fnmatch.fnmatchcase(record.case.id, pattern))
    assert export.markdown(leaderboard.build(replace(some, records=records))).strip() in section
    for standing in leaderboard.build(whole).ranking:
        assert f"| {' | '.join(tables.standing_row(standing))} |" in section
    linked = re.findall(r"\]\(((?:reports|docs)/[^\s)]+)\)", section)
    assert len(linked) >= 5
    assert all((ROOT / path).is_file() for path in linked)


def line_of(cell):
    """Which line of the notes' table a case belongs to; "few" for their other table."""
    row = cell["cute_softmax"]
    count, columns = map(int, row["shape"].split("x"))
    if count <= 16:
        return "few"
    if count == 2048:
        return "vocabulary"
    if columns in (1000, 8191, 50257):
        return "odd"
    return "short" if columns <= 512 else f"published, {row['dtype']}"


def cells_of(words):
    """{case id: {implementation: its row of the exported table}} of the run that the notes link with these words."""
    path = re.search(rf"\[{words}\]\(\.\./([^)\s]+)\)", NOTES)
    assert path
    cells = {}
    for row in csv.DictReader(io.StringIO(export.csv(leaderboard.build(store.read(ROOT / path[1]))))):
        cells.setdefault(row["case"], {})[row["implementation"]] = row
    return cells


@pytest.fixture(scope="module")
def noted():
    return cells_of("One run")


@pytest.fixture(scope="module")
def later():
    return cells_of("a later run")


def latency(cell, implementation):
    return float(cell[implementation]["latency_ns"] or "nan")


@pytest.mark.parametrize("shown", rows(NOTES, "cells"), ids=lambda row: row[0].split(":")[0])
def test_the_notes_figures_are_those_of_the_run(noted, shown):
    cells = [cell for cell in noted.values() if line_of(cell) == shown[0].split(":")[0]]
    percents = [float(cell["cute_softmax"]["percent_of_roof"]) for cell in cells]
    ratios = [latency(cell, "quack") / latency(cell, "cute_softmax") for cell in cells if cell["quack"]["latency_ns"]]
    figures = [str(len(cells)), f"{statistics.geometric_mean(percents):.1f}", f"{min(percents):.1f}"]
    figures += [f"{statistics.geometric_mean(ratios):.3f}", f"{min(ratios):.3f}"]
    assert [re.split("[:,]", text)[0] for text in shown[1:]] == figures


@pytest.mark.parametrize("shown", rows(NOTES, "few rows"), ids=lambda row: row[0])
def test_the_notes_times_of_few_rows_are_those_of_the_run(later, shown):
    cells = [later[f"softmax-{dtype}-{shown[0]}"] for dtype in ("float32", "float16")]
    copy = next(name for name, row in cells[0].items() if row["role"] == "roof")
    times = [latency(cell, name) / 1000 for cell in cells for name in ("cute_softmax", "quack", copy)]
    assert [math.nan if text == "no launch" else float(text) for text in shown[1:]] == pytest.approx(
        times, rel=0.005, nan_ok=True
    )


def test_the_badge_is_made_of_the_leaderboards_run(tmp_path, capsys):
    shown = re.search(r"^\[!\[(?P<said>[^\]]+)\]\(docs/images/badge\.svg\)\]\(#leaderboard\)$", README, re.M)
    path = re.search(r"\[its records\]\((reports/h200/\S+\.jsonl\.gz)\)", README)
    assert shown
    assert path
    assert cli.main(["badge", str(ROOT / path[1]), "--output", str(tmp_path / "badge.svg")]) == 0
    made = (tmp_path / "badge.svg").read_text(encoding="utf-8")
    assert made == (ROOT / "docs" / "images" / "badge.svg").read_text(encoding="utf-8")
    assert f"<title>{shown['said']}</title>" in made


@pytest.fixture(scope="module")
def counted():
    """{(shape, implementation): record} of the runs that the measuring page sets beside Nsight Compute."""
    section = MEASURING.partition("**Against Nsight Compute.**")[2]
    paths = re.findall(r"\[(?:one|the other)\]\(\.\./(\S+\.gz)\)", section)
    found = [record for path in paths for record in store.read(ROOT / path).records]
    return {("x".join(map(str, record.case.shape)), record.variant.implementation): record for record in found}


@pytest.mark.parametrize("shown", rows(MEASURING, "cell"), ids=lambda row: row[0])
def test_what_nsight_compute_says_is_what_the_records_say(counted, shown):
    record = counted[tuple(shown[0].split())]
    traffic, half = record.traffic, record.ideal_bytes / 2
    graph, device = (stats.per_launch_ns(s[0]) if (s := record.clock(name)) else None for name in ("graph", "device"))
    figures = [f"{traffic.kernels_ns / 1000:.1f}", f"{graph / 1000:.1f}", f"{graph / traffic.kernels_ns:.3f}"]
    figures += [f"{device / 1000:.1f}" if device else "-"]
    assert shown[1:] == [*figures, f"{traffic.read_bytes / half:.3f}", f"{traffic.written_bytes / half:.3f}"]


DROPPED = ("layernorm-float32-4096x131072", "add_layernorm-bfloat16-32768x1024")


@pytest.mark.parametrize("shown", rows(NOTES, "norms"), ids=lambda row: row[0].split(",")[0])
def test_the_notes_figures_of_gradients_and_norms_are_those_of_the_runs(later, shown):
    operator = re.split("[ ,]", shown[0])[0]
    is_gradient = operator == "softmax_backward"
    cells = cells_of("Another run") if is_gradient else later
    name, narrow = ("cute_softmax", "float16") if is_gradient else ("cute_norm", "bfloat16")
    figures, counts = [], []
    for dtype in (narrow, "float32"):
        found = [
            (float(cell[name]["percent_of_roof"]), cell[name]["shape"])
            for case, cell in cells.items()
            if case.startswith(f"{operator}-{dtype}-") and case not in DROPPED
        ]
        mean = statistics.geometric_mean([percent for percent, _ in found])
        figures += [f"{mean:.1f}", "{:.1f}: {}".format(*min(found))]
        counts.append(str(len(found)))
    assert shown[1:] == figures
    assert shown[0].split(", ")[1] == " and ".join(dict.fromkeys(counts))
