"""Every cell of the run in one folded table; the script adds a filter and the details of each row."""

from softbench.analysis.leaderboard import CaseBoard, Cell
from softbench.analysis.leaderboard.formatting import FIGURES, cell_figures, short, status_text
from softbench.render.report.contents import Contents
from softbench.render.report.html import EMPTY, Markup, name, row_head, table, tag
from softbench.render.report.panels.blocks import filter_box, status

COLUMNS = ("case", "implementation", "status", *(text.replace(" us", " µs") for text in FIGURES))


def cells(contents: Contents) -> Markup:
    rows = [_row(number, case, cell) for number, (case, cell) in enumerate(contents.cells.all)]
    if not rows:
        return EMPTY
    used = [index for index in range(len(COLUMNS)) if index < 3 or any(row[index] != "<td></td>" for row in rows)]
    body = table(
        [COLUMNS[index] for index in used],
        ([row[index] for index in used] for row in rows),
        left=(0, 1, 2),
        label="every cell",
        class_="cells",
        data_grid="",
        data_sort="",
        id="cells-table",
    )
    summary = tag("summary", f"Every cell ({len(rows)})")
    return tag("details", summary, filter_box("cells", "filter, words in any column"), body, id="cells")


def _row(number: int, case: CaseBoard, cell: Cell) -> list[Markup]:
    record = cell.record
    role = " (not chosen)" if record in case.others else "" if record.role == "entrant" else f" ({record.role})"
    best = f" best of {record.best_of}" if record.best_of > 1 else ""
    who = tag("td", name(record.variant.id, 40), best + role, "†" if cell.dagger else "", class_="label", data_cell=number)
    return [
        row_head(tag("bdi", short(record.case.id, 100))),
        who,
        tag("td", status(record, status_text(record)), class_="label"),
        *(tag("td", text) for text in cell_figures(cell)),
    ]
