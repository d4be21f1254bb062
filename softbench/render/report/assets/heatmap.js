// The heat map, in the metric that the reader chooses.

const clamp = (value) => Math.min(Math.max(value, 0), 1);

// Steep near the top, where kernels differ; the same as tint() in grids/heatmap.py.
const tint = (share) => clamp((share - 50) / 50) ** 2;

// By metric: value and text of a cell, depth of its tint, and whether it is the tint for less.
const METRICS = {
  roof: { value: (cell) => cell.roof, text: (value) => value.toFixed(1), heat: (value) => tint(value) },
  ms: { value: (cell) => cell.ns, text: ms, heat: (value, cell, scale) => tint((100 * scale.fastest(cell)) / value) },
  gbs: {
    value: (cell) => (cell.tflops ? null : cell.gbs),
    text: (value) => value.toFixed(0),
    heat: (value, cell, scale) => tint((100 * value) / scale.peak),
  },
  tflops: {
    value: (cell) => cell.tflops,
    text: (value) => value.toFixed(1),
    heat: (value, cell, scale) => tint((100 * value) / scale.highest(cell)),
  },
  speedup: {
    value: (cell, scale) => scale.speedups[cell.number] && scale.speedups[cell.number].ratio,
    text: (value) => times(value),
    heat: (value) => clamp(Math.abs(Math.log2(value)) / 2),
    less: (value) => value < 1,
  },
  traffic: {
    value: (cell) => (cell.traffic ? cell.traffic[0] : null),
    text: (value) => times(value, 3),
    heat: (value) => clamp(Math.abs(value - 1)),
    less: (value) => value > 1,
  },
};

// What tints are relative to; an open time sets no measure.
function scaleOf(board, speedups) {
  const peak = board.peak || board.cells.reduce((most, cell) => Math.max(most, cell.gbs || 0), 1);
  const counted = (cell) => board.byCase[cell.case].filter((other) => other.role !== "open");
  const fastest = (cell) => Math.min(...counted(cell).filter((other) => other.ns && other.role !== "roof").map((other) => other.ns));
  const highest = (cell) => counted(cell).reduce((most, other) => Math.max(most, other.tflops || 0), 0);
  return { peak, fastest, highest, speedups };
}

function setUpHeatmap(board) {
  const cells = [...document.querySelectorAll(".heat td[data-cell]:not(.none)")];
  const choice = document.getElementById("metric");
  const first = choice ? choice.querySelector("input").value : "roof";
  let [metric, speedups] = [first, []];
  const draw = () => {
    const scale = scaleOf(board, speedups);
    for (const place of cells) paint(place, board.cells[place.dataset.cell], METRICS[metric], scale);
  };
  if (choice) {
    choice.addEventListener("change", (event) => {
      metric = event.target.value;
      draw();
    });
  }
  return (found) => {
    speedups = found;
    if (metric === "speedup") draw();
  };
}

function paint(place, cell, metric, scale) {
  const value = metric.value(cell, scale);
  const missing = value === null || value === undefined;
  place.firstChild.textContent = missing ? "-" : metric.text(value);
  place.style.setProperty("--heat", missing ? 0 : metric.heat(value, cell, scale).toFixed(2));
  place.classList.toggle("below", !missing && Boolean(metric.less) && metric.less(value));
}
