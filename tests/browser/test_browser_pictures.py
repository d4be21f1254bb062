"""Tables that are figures, saved by the page's buttons: what is shown is in the picture, whatever was chosen before."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from support import builders as make
from support import pages

pytestmark = pytest.mark.browser
SVG = "{http://www.w3.org/2000/svg}"


def saved(found, panel, kind):
    with found.page.expect_download() as download:
        found.page.locator(f"#{panel}").get_by_role("button", name=f"as {kind}").click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def words(root):
    return " ".join(element.text for element in root.iter(f"{SVG}text"))


def texts(root):
    return Counter(element.text for element in root.iter(f"{SVG}text"))


def figures(found, table):
    """The figures, or the words, of a table's cells as they stand there."""
    cells = "(table) => [...table.querySelectorAll('td')].map((cell) => cell.firstChild.textContent.trim())"
    return Counter(filter(None, found.page.locator(table).first.evaluate(cells)))


def test_the_heat_map_is_saved_as_it_is_shown(open_run):
    found = open_run(pages.everything(), color_scheme="dark")
    found.page.get_by_label("speed-up", exact=True).check()
    found.page.get_by_label("speed-up over").select_option(label="other")
    name, data = saved(found, "heatmap", "SVG")
    assert name == "softbench-heatmap-softmax-float16-timed-cases-by-implementation.svg"
    root = ET.fromstring(data)
    said = words(root)
    assert said.startswith("Heat map: speed-up over other: softmax, float16: timed cases by implementation NVIDIA H200")
    shown = figures(found, ".heat")
    assert shown.total() == 7 * 7
    assert all(any(text.startswith(own) for text in texts(root)) for own in shown)
    assert root.find(f"{SVG}rect").get("fill") == "rgb(255, 255, 255)"  # whatever the reader has
    assert len({element.get("fill-opacity") for element in root.iter(f"{SVG}rect")}) > 5
    assert "var(" not in data.decode()
    assert "NVIDIA H200 · run r1" in texts(root)
    assert found.complaints == []


def test_a_folded_table_is_in_its_picture_and_stays_folded(open_run):
    hard = make.softmax_case(37, 1000, timed=False)
    found = open_run(make.run([make.timed(hard, "mine", 1, samples=())]))
    assert not found.page.locator("#correctness .matrix").is_visible()
    root = ET.fromstring(saved(found, "correctness", "SVG")[1])
    assert {hard.id, "mine", "✓"} <= set(texts(root))
    assert not found.page.locator("#correctness .matrix").is_visible()


def test_another_table_can_be_chosen(open_run):
    found = open_run(pages.everything())
    picker = found.page.locator("#correctness").get_by_role("combobox", name="save")
    choices = picker.locator("option").all_inner_texts()
    assert choices == [f"{operator}: hard cases that somebody fails" for operator in ("softmax", "rmsnorm")]
    picker.select_option(index=len(choices) - 1)
    _, data = saved(found, "correctness", "SVG")
    root = ET.fromstring(data)
    assert choices[-1] in words(root)
    assert len(words(root)) > len(choices[-1]) + 50
    found.page.locator("#heatmap").get_by_role("combobox", name="save").select_option(index=2)
    name, data = saved(found, "heatmap", "SVG")
    assert name.startswith("softbench-heatmap-rmsnorm-bfloat16")


@pytest.mark.parametrize("panel", ["heatmap", "ladders", "correctness"])
def test_a_png_shows_the_same_at_twice_the_size(open_run, panel):
    found = open_run(pages.everything())
    _, drawing = saved(found, panel, "SVG")
    name, data = saved(found, panel, "PNG")
    assert name.endswith(".png")
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") == 2 * int(ET.fromstring(drawing).get("width"))
    assert len(data) > 10_000
    assert found.complaints == []


def test_hostile_names_are_text_in_it(open_run):
    found = open_run(pages.hostile())
    for panel in ("heatmap", "correctness"):
        root = ET.fromstring(saved(found, panel, "SVG")[1])
        assert {element.tag for element in root.iter()} <= {
            f"{SVG}{name}" for name in ("svg", "title", "desc", "rect", "text", "path")
        }
        assert saved(found, panel, "PNG")[1].startswith(b"\x89PNG")
    assert found.complaints == []


@pytest.mark.parametrize(("figure", "title"), [("ratio", "Time over the roof"), ("profile", "softmax")])
def test_a_figure_is_saved_as_it_is_shown_under_its_title_gpu_and_run(open_run, figure, title):
    found = open_run(pages.everything(), color_scheme="dark")
    with found.page.expect_download() as download:
        found.page.locator(f"figure[data-figure={figure}]").get_by_role("button", name="as SVG").click()
    assert download.value.suggested_filename == f"softbench-{figure}.svg"
    text = Path(download.value.path()).read_text()
    assert "var(" not in text
    assert title in words(ET.fromstring(text))
    assert "NVIDIA H200 · run r1" in texts(ET.fromstring(text))
    assert ET.fromstring(text).find(f"{SVG}rect").get("fill") == "rgb(255, 255, 255)"
