"""The page: self-contained, escaped, the same bytes every time, no empty panel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import builders as make
import pytest

from softbench.model import KernelResources, Record, Run, Status
from softbench.report import render

CASE = make.softmax_case(32768, 1024)
WIDE = make.softmax_case(4096, 131072)
HARD = make.softmax_case(timed=False, distribution="masked")
EVIL = "</script><script>alert('x')</script>"
VOID = {"meta", "input", "br"}


class Outline(HTMLParser):
    """Checks that elements nest, and collects headings, texts and empty bodies."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts = 0
        self.headings: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h2", "summary"):
            self.headings.append(data)
        if "script" not in self.open:
            self.text.append(data)


def outline(run: Run) -> Outline:
    parsed = Outline(render(run))
    assert parsed.open == []
    return parsed


def full_run() -> Run:
    kernels = (KernelResources("k", 40, 0, 1024),)
    records: list[Record] = []
    for case in (CASE, WIDE):
        records += [make.timed(case, "copy", 40_000, role="roof"), make.timed(case, "torch_eager", 90_000)]
        records.append(make.timed(case, "ours", 48_500, kernels=kernels, best_of=3, notes=("a note",)))
    records += [make.ended(WIDE, "liger", reason="a row must fit"), make.timed(CASE, "liger", 50_000)]
    records.append(make.ended(HARD, "liger", Status.INCORRECT, "nan at row 3", reproduce="pytest -k masked"))
    return make.run(records)


def figures(page: str) -> list[dict]:
    return json.loads(re.search(r'<script id="figures" type="application/json">(.*?)</script>', page).group(1))


def test_the_page_has_its_panels_and_what_a_reader_looks_for():
    parsed = outline(full_run())
    text = " ".join(parsed.text)
    assert parsed.headings == [
        "Ranking",
        "Bandwidth over columns",
        "Timed cases",
        "Correctness",
        "Every cell (9)",
        "Passport",
    ]
    for wanted in ("ours leads softmax on NVIDIA H200", "2026-01-02", "commit 0123abc", "0.0485 / ", "best of 3"):
        assert wanted in text
    for wanted in ("a row must fit", "† liger fails 1 hard case", "pytest -k masked", "a note", "torch: 2.11.0"):
        assert wanted in text


def test_the_charts_draw_the_roof_and_the_peak():
    traces = {trace["name"]: trace for trace in figures(render(full_run()))[0]["traces"]}
    assert traces["measured roof"]["x"] == [1024, 131072]
    assert traces["theoretical peak, 4814 GB/s"]["y"] == [4814.0, 4814.0]
    assert traces["ours"]["y"][0] == pytest.approx(2 * 32768 * 1024 * 2 / 48_500, rel=1e-3)


def test_no_peak_on_the_wall_clock_or_where_it_is_unknown():
    run = make.run([make.timed(CASE, "a", 5e6, clock="wall")], "wall", device={"name": "a CPU", "peak_gb_s": 100.0})
    assert [trace["name"] for trace in figures(render(run))[0]["traces"]] == ["a"]
    run = make.run([make.timed(CASE, "a", 5e4)], device={"name": "NVIDIA H200"})
    assert [trace["name"] for trace in figures(render(run))[0]["traces"]] == ["a"]


def test_odd_widths_and_tiny_cases_are_loose_points():
    cases = [make.softmax_case(32768, 1024), make.softmax_case(16384, 2048), make.softmax_case(8192, 8191)]
    cases += [make.softmax_case(4096, 2048), make.softmax_case(1, 131072)]
    line, loose = figures(render(make.run([make.timed(case, "a", 5e4) for case in cases])))[0]["traces"][:2]
    assert (line["mode"], line["x"], line["showlegend"]) == ("lines+markers", [1024, 2048], True)
    assert (loose["mode"], loose["x"], loose["showlegend"]) == ("markers", [2048, 8191, 131072], False)


def test_the_page_asks_for_nothing_from_anywhere():
    page = render(full_run())
    assert "default-src 'none'" in page
    assert not re.search(r"<(?:link|img|iframe)\b|<script[^>]*\bsrc=|@import", page.split("<script>")[0])


def test_the_same_records_give_the_same_bytes():
    code = "import sys, test_report; sys.stdout.buffer.write(test_report.render(test_report.full_run()).encode())"
    pages = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path for path in sys.path if path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert pages[0] == pages[1] == render(full_run()).encode()


def test_whatever_is_in_the_records_stays_text():
    variant = make.variant(EVIL, params=(("p", EVIL),), family=EVIL)
    records = [
        make.timed(CASE, EVIL, 5e4, variant=variant, notes=(EVIL,)),
        make.ended(WIDE, EVIL, Status.CRASHED, EVIL + "\0\ud800", variant=variant, reproduce=EVIL),
        make.timed(make.softmax_case(layout=EVIL), "b" * 300, 5e4),
    ]
    run = make.run(records, commit=EVIL, device={"name": EVIL, EVIL: EVIL}, settings={"x": [EVIL]})
    clean = outline(make.run([make.timed(CASE, "a", 5e4)]))
    page = render(run)
    assert Outline(page).scripts == clean.scripts
    assert "<script>alert" not in page
    assert page.encode("utf-8")


def test_a_run_of_failures_has_no_ranking_no_chart_and_no_chart_library():
    failed = [make.ended(CASE, "a", Status.CRASHED, "signal 11"), make.ended(HARD, "a", Status.TIMEOUT, "60 s")]
    page = render(make.run(failed))
    assert Outline(page).headings == ["Timed cases", "Correctness", "Every cell (2)", "Passport"]
    assert len(page) < 30_000


def test_hard_cases_alone_show_counts():
    run = make.run([make.timed(HARD, "a", 1, samples=()), make.ended(HARD, "b", Status.INCORRECT, "nan")])
    parsed = outline(run)
    assert parsed.headings == ["Correctness", "Every cell (2)", "Passport"]
    assert "Nothing of softmax was timed: 1 cell right, 1 failed, 0 refused." in " ".join(parsed.text)


def test_an_empty_run_is_a_page_with_a_passport():
    assert outline(make.run([])).headings == ["Passport"]
