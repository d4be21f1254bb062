// The page comes alive. `data-ready` on the root says so: "page", then "charts" once all figures are drawn.

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
  // A printout needs all figures at once, and a browser does not wait for any then: draw the rest while nothing else happens.
  await charts.drawAll();
  isReady("charts");
}

start();
