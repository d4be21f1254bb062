"""docs/tutorial.md, followed from its first line to its last as a reader would, in an empty folder and without a GPU."""

import re

import pytest
from support.documents import PAGES
from support.readers import TUTORIAL, follow
from support.recipes import MARKS, ROOT, Reader, unknown

from softbench.records import store


@pytest.mark.slow
def test_a_reader_without_a_gpu_can_follow_it(tmp_path):
    pytest.importorskip("triton")
    typed = follow(Reader(tmp_path, has_gpu=False), with_gpu=False)
    assert len(typed) >= 9
    made = tmp_path / "mine"
    assert [record.status.value for record in store.read(made / "kept" / "monday.jsonl.xz").records].count("PASSED") == 3
    assert (made / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert "% of roof</text>" in (made / "badge.svg").read_text()


def test_every_block_is_of_a_known_kind():
    assert {block.language for block in TUTORIAL} == {"sh", "python", "text"}
    assert {block.mark for block in TUTORIAL} == set(MARKS)
    for block in TUTORIAL:
        assert (block.language == "python") == (block.mark in ("file", "append"))
        assert block.mark not in ("gpu", "install", "exit") or block.language == "sh"


def test_what_is_not_run_here_names_what_there_is():
    lines = [words for block in TUTORIAL if block.mark == "gpu" for words in block.commands]
    assert len(lines) >= 3
    assert not [word for words in lines for word in unknown(words)]


def test_the_extras_that_pages_install_exist():
    named = re.findall(r"pip install -e '\.\[(\w+)\]'|'\.\[(\w+)\]' is enough", "".join(p.read_text() for p in PAGES))
    found = {name for names in named for name in names if name}
    extras = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    assert {"all", "triton", "cuda", "sanitizer", "test"} == found <= set(re.findall(r"^(\w+) = \[", extras, re.M))


def test_the_run_that_it_reads_is_the_leaderboards():
    (path,) = {word for block in TUTORIAL for words in block.commands for word in words if "/reports/h" in word}
    assert f"[its records]({path.removeprefix('../softbench/')})" in (ROOT / "README.md").read_text(encoding="utf-8")
