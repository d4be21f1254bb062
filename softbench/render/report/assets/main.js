// Starts the page. `data-ready` of the root is "page" when all of it can be used.

async function start() {
  document.querySelectorAll(".copyable").forEach(addCopyButton);
  const board = makeBoard(JSON.parse(await unpack("data")));
  const details = setUpDetails(board);
  const recolour = setUpHeatmap(board);
  setUpBaseline(board, [recolour, details.update]);
  document.querySelectorAll("table[data-grid]").forEach((table) => setUpGrid(table, details.open));
  setUpFilter();
  setUpCharts(board, details.open);
  setUpTheme();
  setUpPrint();
  document.documentElement.dataset.ready = "page";
  performance.mark("softbench-page");
}

start();
