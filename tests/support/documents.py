"""The pages of this checkout, and the tables in them."""

from support.paths import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "reports" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
README, ATTENTION, DESIGN, HTILE, MEASURING, NOTES, OPTIONS, RESULTS = (
    (ROOT / f"{name}.md").read_text(encoding="utf-8")
    for name in (
        "README",
        "docs/attention",
        "docs/design",
        "docs/htile",
        "docs/measuring",
        "docs/notes/performance",
        "docs/options",
        "docs/results",
    )
)


def rows(page, header):
    """The cells of the table that begins with `| header |`."""
    lines = page[page.index(f"| {header} |") :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
