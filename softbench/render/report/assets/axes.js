// The axes of a figure as plotly's layout, for the available width.

const NARROW = 720;

function layoutOf(figure, view, width) {
  const narrow = width < NARROW;
  const ink = colour("--ink");
  const below = figure.x.scale === "words" ? -0.5 : -0.22;
  const [rule, muted] = [colour("--rule"), colour("--muted")];
  const grid = { gridcolor: rule, linecolor: muted, tickcolor: muted, zeroline: false, automargin: true };
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
    margin: { l: 62, r: 14, t: 10, b: narrow ? 40 : 48 },
    font: { color: ink, size: 12, family: "system-ui, 'DejaVu Sans', sans-serif" },
    hoverlabel: { bgcolor: colour("--paper"), bordercolor: muted, font: { color: ink }, align: "left" },
    showlegend: figure.panes.length === 1,
    legend: narrow ? { orientation: "h", x: 0, y: below, yanchor: "top", font: { size: 11 } } : { x: 1.01, y: 1 },
    xaxis: { ...grid, ...axisOf(figure.x, figure.views[view].series, "x", narrow, figure.diagonal) },
    shapes: figure.diagonal ? [diagonal(figure.views[view].series)] : [],
  };
  const count = figure.panes.length;
  figure.panes.forEach((pane, index) => {
    const gap = count > 1 ? 0.06 : 0;
    const own = figure.views[view].series.filter((entry) => entry.pane === index);
    layout[index ? `yaxis${index + 1}` : "yaxis"] = {
      ...grid, ...axisOf(pane, own, "y", narrow, figure.diagonal),
      domain: [1 - (index + 1) / count + (index + 1 < count ? gap : 0), 1 - index / count],
    };
  });
  if (count > 1) layout.xaxis.anchor = `y${count}`;
  return layout;
}

const diagonal = (series) => {
  const values = series.flatMap((entry) => [...entry.x, ...entry.y]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return { type: "line", x0: low, y0: low, x1: high, y1: high, line: { color: colour("--ink"), width: 1, dash: "dash" } };
};

const FACTORS = [1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8];

function axisOf(axis, series, side, narrow, square) {
  const title = { text: plain(axis.title), standoff: 8, font: { size: 12 } };
  const made = { title, type: axis.scale === "words" ? "category" : axis.scale };
  const values = series.flatMap((entry) => (square ? [...entry.x, ...entry.y] : entry[side]));
  if (square) made.range = [Math.log10(Math.min(...values) * 0.8), Math.log10(Math.max(...values) * 1.25)];
  if (axis.from_zero) made.rangemode = "tozero";
  if (axis.form === "percent") Object.assign(made, { ticksuffix: " %", range: [0, Math.max(102, ...values) * 1.01] });
  if (axis.form === "factor") {
    const shown = narrow ? [1, 1.5, 2, 4, 8] : FACTORS;
    const range = [-0.005, Math.log10(Math.max(...values)) + 0.005];
    Object.assign(made, { tickvals: shown, ticktext: shown.map((factor) => `${factor}x`), range });
  }
  if (axis.form === "size") Object.assign(made, sizeTicks(values, narrow ? 6 : 15));
  if (axis.form === "us") Object.assign(made, timeTicks(values));
  if (axis.form === "reading") Object.assign(made, { nticks: 5 }, readingRange(values));
  if (axis.scale === "words") {
    const longest = series.reduce((most, entry) => (entry.x.length > most.length ? entry.x : most), []);
    if (narrow) made.title.text = "";
    Object.assign(made, { tickangle: narrow ? -60 : -35, categoryorder: "array", categoryarray: longest });
  }
  return made;
}

// Readings that hardly change get a wider range, so that no tick is between whole numbers.
function readingRange(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high - low < 4 ? { range: [low - 4, high + 4] } : {};
}

// 1, 2, 5, 10, ..., or only powers of ten if those are too many.
function timeTicks(values) {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.ceil(Math.log10(Math.max(...values)));
  const steps = high - low > 3 ? [1] : [1, 2, 5];
  const shown = Array.from({ length: high - low + 1 }, (_, index) => steps.map((step) => step * 10 ** (low + index))).flat();
  return { tickvals: shown, ticktext: shown.map((value) => String(Number(value.toPrecision(1)))) };
}

// Powers of two, as many as fit.
function sizeTicks(values, room) {
  const low = Math.floor(Math.log2(Math.min(...values)));
  const high = Math.ceil(Math.log2(Math.max(...values)));
  const stride = Math.max(1, Math.ceil((high - low + 1) / room));
  const powers = [];
  for (let power = low; power <= high; power += stride) powers.push(2 ** power);
  return { tickvals: powers, ticktext: powers.map(size) };
}
