// Starts the page. `data-ready` of the root is "page", then "charts" when all figures are drawn.

function isReady(word) {
  document.documentElement.dataset.ready = word;
  performance.mark(`softbench-${word}`);
}

async function start() {
  drawKeys();
  document.querySelectorAll(".copyable").forEach(addCopyButton);
  const board = makeBoard(JSON.parse(await unpack("data")));
  const details = setUpDetails(board);
  const recolour = setUpHeatmap(board);
  setUpBaseline(board, [recolour, details.update]);
  setUpPictures();
  document.querySelectorAll("table[data-grid]").forEach((table) => setUpGrid(table, details.open));
  setUpFilter();
  const charts = setUpCharts(board, details.open);
  setUpTheme(charts.redraw);
  setUpPrint(charts);
  isReady("page");
  // Printing needs all figures, and a browser does not wait for them then: draw the rest while it is idle.
  await charts.drawAll();
  isReady("charts");
}

start();
