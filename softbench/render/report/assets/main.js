// Starts the page. `data-ready` of the root is "page" when all of it can be used.

async function start() {
  document.querySelectorAll(".copyable").forEach(addCopyButton);
  const board = makeBoard(JSON.parse(await unpack("data")));
  const details = setUpDetails(board);
  const recolour = setUpHeatmap(board);
  setUpBaseline(board, [recolour, details.update]);
  document.querySelectorAll("table[data-grid]").forEach((table) => setUpGrid(table, details.open));
  document.querySelectorAll("table[data-sort]").forEach(setUpSort);
  setUpCellFilter();
  setUpRowFilter();
  setUpCharts(board, details.open);
  setUpFocus(board);
  setUpTheme();
  setUpPrint();
  setUpState();
  openChosen(board, details.open);
  document.documentElement.dataset.ready = "page";
  performance.mark("softbench-page");
}

start();
