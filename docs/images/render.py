"""Renders what the pages show of kept runs: `tox -e pictures`, or `python docs/images/render.py`.

It writes the README's leaderboard, the ranking of docs/results.md, the badge, a view of the page, and `made-from.json`:
the README's run, a hash of its page, and a hash of each picture. It needs Chromium and playwright. A test compares
made-from.json with today's run, renderer and pictures, without a browser.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RUN = "reports/h200/20261129-164712-h200-gpu.jsonl.xz"
"""The run of the README: its badge, table and picture are made from it."""
PUBLISHED = "reports/h100/20261126-084635-h100-80gb-published.jsonl.xz"
"""That of docs/results.md."""
MADE_FROM = HERE / "made-from.json"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VIEW = {"top": 50, "width": 960, "height": 368}
"""What the picture shows, in pixels: from below the page's bar to the end of the first row of cards."""
SEEN = r"""view => {
  const inside = (box) => box.width > 1 && box.top >= view.top && box.bottom <= view.top + view.height;
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = new Range(), lines = [];
  for (let node = nodes.nextNode(); node; node = nodes.nextNode()) for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const box = range.getBoundingClientRect(), { fontSize, fontWeight, color } = getComputedStyle(node.parentElement);
    if (!inside(box) || document.elementFromPoint(box.x + box.width / 2, box.y + 9) !== node.parentElement) continue;
    const y = box.top - view.top + 0.8 * box.height, look = `font-size="${fontSize}" font-weight="${fontWeight}" fill="${color}"`;
    const last = lines.at(-1), gap = box.x - last?.right;
    if (last?.y === y && last.look === look && gap < 9) last.text += (gap > 1 ? " " : "") + word;
    else lines.push({ look, x: box.x, y, text: word });
    lines.at(-1).right = box.right;
  }
  const cards = [...document.querySelectorAll("main *")].map((one) => [one.getBoundingClientRect(), getComputedStyle(one)]);
  return {
    lines: lines.map((one) => [one.look, one.x, one.y, one.right - one.x, one.text]),
    cards: cards.filter(([box, style]) => inside(box) && box.height > 99 && style.borderTopWidth === "1px").map(
      ([box, style]) => [box.x, box.y - view.top, box.width, box.height, style.backgroundColor, style.borderColor]),
  };
}"""
"""A function of the page: its lines of text and its cards in VIEW, as the browser lays them out."""
ROWS = 8


def page_text() -> str:
    from softbench.records import claims, store
    from softbench.render import report

    return str(report.render(store.read(ROOT / RUN), published=claims.bundled()))


def page_hash(text: str) -> str:
    """SHA-256 of what the page shows: markup, style, script and data, unpacked; plotly.js has a version of its own."""

    def unpacked(match: re.Match[str]) -> str:
        return "" if match[1] == "library" else gzip.decompress(base64.b64decode(match[2])).decode("utf-8")

    plain = re.sub(r'<script id="(library|data)" type="application/gzip">(.*?)</script>', unpacked, text, flags=re.S)
    return hashlib.sha256(plain.encode("utf-8")).hexdigest()


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def made_from() -> dict[str, Any]:
    """What the pictures are made from now: the run, the page, and each picture."""
    pictures = {path.name: file_hash(path) for path in sorted(HERE.glob("*.svg"))}
    return {"run": RUN, "run_hash": file_hash(ROOT / RUN), "page_hash": page_hash(page_text()), "pictures": pictures}


def picture(seen: dict[str, Any]) -> str:
    """What SEEN found, as SVG."""
    size = f'width="{VIEW["width"]}" height="{VIEW["height"]}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui,DejaVu Sans,sans-serif">']
    parts.append(f'<rect {size} fill="#fff"/>')
    for x, y, wide, high, fill, line in seen["cards"]:
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{high:.0f}" rx="6" fill="{fill}" stroke="{line}"/>')
    for look, lines in itertools.groupby(sorted(seen["lines"]), lambda line: line[0]):
        texts = (f'<text x="{x:.0f}" y="{y:.0f}" textLength="{wide:.0f}">{escape(text)}</text>' for _, x, y, wide, text in lines)
        parts += [f"<g {look}>", *texts, "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def ranking(run: str) -> str:
    """A run's sentence and ranking, as `softbench table RUN --format markdown` prints them."""
    from softbench import cli

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        cli.main(["table", str(ROOT / run), "--format", "markdown"])
    return printed.getvalue().strip().partition("\n\n### ")[0]


def write_tables() -> None:
    """The sentence and the first eight rows of the README's run, and all that of docs/results.md."""
    sentence, *lines = ranking(RUN).splitlines()
    first = [line for line in lines if line.startswith("|")][: 2 + ROWS]
    readme, results = ROOT / "README.md", ROOT / "docs" / "results.md"
    before, heading, after = readme.read_text(encoding="utf-8").partition("## Leaderboard\n\n")
    _, end, rest = after.partition("\n\nNVIDIA ")
    readme.write_text(before + heading + "\n".join([sentence, "", *first]) + end + rest, encoding="utf-8")
    before, link, _ = results.read_text(encoding="utf-8").partition(f"[its records](../{PUBLISHED}).\n")
    results.write_text(f"{before}{link}\n{ranking(PUBLISHED)}\n", encoding="utf-8")


def draw(browser: Any, page: Path) -> None:
    """What the first screen says, as HERE/report-desktop.svg."""
    tab = browser.new_page(viewport={"width": VIEW["width"], "height": VIEW["top"] + VIEW["height"]})
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=page]", state="attached")
    (HERE / "report-desktop.svg").write_text(picture(tab.evaluate(SEEN, VIEW)), encoding="utf-8")
    tab.close()


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from playwright.sync_api import sync_playwright

    from softbench import cli

    write_tables()
    path = os.environ.get("SOFTBENCH_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "page.html"
        page.write_text(page_text(), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        draw(browser, page)
        browser.close()
    cli.main(["badge", str(ROOT / RUN), "--output", str(HERE / "badge.svg")])
    MADE_FROM.write_text(json.dumps(made_from(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
