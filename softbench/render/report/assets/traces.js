// The series of a figure as plotly's traces: colours, signs and hover texts.

// plotly interprets a few tags in texts; names must not contain any.
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function tracesOf(board, figure, view) {
  const seen = new Set();
  const series = figure.views[view].series;
  return series.map((entry) => {
    const style = seriesStyle(board, entry, series);
    const room = ["published", "peak"].includes(entry.role) ? 40 : 24;
    const title = short(entry.name, room) + (["open", "reference"].includes(entry.role) ? ` (${entry.role})` : "");
    const group = `${entry.role} ${entry.name}`;
    const showlegend = !seen.has(group);
    seen.add(group);
    const onALine = series.some((other) => other.name === entry.name && !other.loose);
    return {
      name: plain(title), legendgroup: group, showlegend, x: entry.x, y: entry.y, customdata: entry.cells,
      mode: entry.loose ? "markers" : entry.markers ? "lines+markers" : "lines",
      opacity: entry.loose && onALine ? 0.6 : 1,
      text: entry.keys.map((key, index) => hoverText(board, figure, entry, title, key, index)),
      hovertemplate: "%{text}<extra></extra>",
      hoverinfo: entry.role === "peak" ? "skip" : undefined,
      line: { color: style.colour, dash: style.dash, width: 2, shape: figure.steps ? "hv" : "linear" },
      marker: { color: style.colour, symbol: style.symbol, size: entry.loose ? 6 : 7, maxdisplayed: figure.steps ? 9 : 0 },
      yaxis: entry.pane ? `y${entry.pane + 1}` : "y",
    };
  });
}

function seriesStyle(board, entry, series) {
  if (entry.role === "roof") return { colour: colour("--ink"), symbol: "line-ew-open", dash: "dash" };
  if (entry.role === "peak") return { colour: colour("--muted"), symbol: "line-ew-open", dash: "dot" };
  if (entry.role === "reference") return { colour: colour("--muted"), symbol: "line-ew-open", dash: "dot" };
  if (entry.role === "reading") return { colour: COLOURS[entry.pane % COLOURS.length], symbol: "circle", dash: "solid" };
  const known = board.implementations.indexOf(entry.like || entry.name);
  const looks = looksOf(known < 0 ? strangerNumber(board, entry, series) : known);
  if (entry.role === "published") return { colour: looks.colour, symbol: `${looks.symbol}-open`, dash: "dot" };
  return { colour: looks.colour, symbol: looks.symbol + (looks.open ? "-open" : ""), dash: looks.dash };
}

// A number for an implementation that is not in this run, whose colour no entrant of the picture has.
function strangerNumber(board, entry, series) {
  const numberOf = (name) => board.implementations.indexOf(name);
  const used = series.filter((other) => other.role === "entrant").map((other) => looksOf(numberOf(other.name)).colour);
  const free = COLOURS.findIndex((hue) => !used.includes(hue));
  const strangers = series.filter((other) => other.like && numberOf(other.like) < 0).map((other) => other.name);
  return (free < 0 ? board.implementations.length : free) + strangers.indexOf(entry.name);
}

function hoverText(board, figure, entry, title, key, index) {
  const cell = board.cells[entry.cells[index]];
  const head = `<b>${plain(title)}</b><br>${plain(short(key || String(entry.x[index]), 60))}`;
  if (!cell) return `${head}<br>${entry.y[index]} ${plain(figure.panes[entry.pane].title)}`;
  const said = [`${ms(cell.ns)} ms`];
  if (cell.gbs) said.push(`${cell.gbs.toFixed(0)} GB/s`);
  if (cell.roof) said.push(`${cell.roof.toFixed(1)} % of roof`);
  const other = figure.diagonal ? `<br>${entry.y[index]} µs by the other clock` : "";
  return `${head}<br>${said.join(", ")}${other}`;
}
