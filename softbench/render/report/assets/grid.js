// Tables whose cells open details: Tab reaches a table once, arrow keys move inside.

function setUpGrid(table, open) {
  table.setAttribute("role", "grid");
  const cells = [...table.querySelectorAll("td[data-cell]")];
  if (!cells.length) return;
  const label = table.getAttribute("aria-label");
  table.setAttribute("aria-label", `${label}; arrow keys move, Enter opens a cell`);
  for (const cell of cells) {
    cell.tabIndex = -1;
    cell.setAttribute("aria-haspopup", "dialog");
  }
  let current = cells[0];
  current.tabIndex = 0;
  const move = (cell) => {
    if (!cell) return;
    current.tabIndex = -1;
    current = cell;
    current.tabIndex = 0;
    current.focus();
  };
  table.addEventListener("click", (event) => {
    const cell = event.target.closest("td[data-cell]");
    if (!cell) return;
    move(cell);
    open(Number(cell.dataset.cell));
  });
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td[data-cell]");
    if (!cell && event.key === "ArrowDown") current.focus();
    if (!cell || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") open(Number(cell.dataset.cell));
    else if (event.key === "ArrowUp" && !vertically(cell, "previousElementSibling", 1)) focusHead(table, cell);
    else {
      const next = stepFrom(event, cell);
      if (next === undefined) return;
      move(next);
    }
    event.preventDefault();
  });
}

function focusHead(table, cell) {
  const button = table.tHead.rows[0].cells[cell.cellIndex].querySelector("button");
  if (button) button.focus();
}

const PAGE_ROWS = 10;

// The cell that a key leads to, null where there is none; undefined for another key.
function stepFrom(event, cell) {
  const within = event.ctrlKey ? cell.closest("tbody") : cell.parentElement;
  switch (event.key) {
    case "ArrowRight": return sideways(cell, "nextElementSibling");
    case "ArrowLeft": return sideways(cell, "previousElementSibling");
    case "ArrowDown": return vertically(cell, "nextElementSibling", 1);
    case "ArrowUp": return vertically(cell, "previousElementSibling", 1);
    case "PageDown": return vertically(cell, "nextElementSibling", PAGE_ROWS);
    case "PageUp": return vertically(cell, "previousElementSibling", PAGE_ROWS);
    case "Home": return within.querySelector("td[data-cell]");
    case "End": return [...within.querySelectorAll("td[data-cell]")].pop();
    default: return undefined;
  }
}

function sideways(cell, direction) {
  let next = cell[direction];
  while (next && !next.matches("td[data-cell]")) next = next[direction];
  return next;
}

function vertically(cell, direction, count) {
  const column = cell.cellIndex;
  let found = null;
  for (let row = cell.parentElement[direction]; row && count; row = row[direction]) {
    const next = row.cells[column];
    if (row.hidden || !next || !next.matches("td[data-cell]")) continue;
    found = next;
    count--;
  }
  return found;
}
