"""The page's looks and its few lines of script."""

from __future__ import annotations

CSS = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2126; --muted: #646c76; --rule: #dfe3e8; --faint: #f5f6f8;
  --tint: 0 114 178; --bad: #b3400a; --good: #00704f; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181c; --ink: #e4e7eb; --muted: #98a1ab; --rule: #30363d;
  --faint: #1c2026; --tint: 86 180 233; --bad: #f2935a; --good: #3fc79b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 96rem; padding: 2.5rem 1.5rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; font-weight: 600; margin: 0 0 .5rem; line-height: 1.25; }
h2 { font-size: 1.15rem; font-weight: 600; margin: 2.75rem 0 .5rem; }
h3 { font-size: .95rem; font-weight: 600; margin: 1.5rem 0 .4rem; }
p { margin: .4rem 0; max-width: 62rem; }
.verdict { font-size: 1.1rem; }
.meta, .note, .reason { color: var(--muted); }
.meta, .note { font-size: .87rem; }
.frame { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .32rem .7rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; color: var(--muted); white-space: nowrap; border-bottom-color: var(--muted); }
td.time, td.label { white-space: nowrap; }
td.text, td.label, th.label { text-align: left; }
.first th, .first td { padding: .28rem .45rem; font-size: .82rem; }
td.text { overflow-wrap: anywhere; min-width: 7rem; max-width: 26rem; }
td.time { background: rgb(var(--tint) / calc(var(--heat, 0) * .38)); }
td.won { font-weight: 700; }
td.status { text-align: left; min-width: 8rem; max-width: 13rem; overflow-wrap: anywhere; }
.word { font-size: .75rem; letter-spacing: .03em; color: var(--muted); }
.failed .word, .word.failed { color: var(--bad); font-weight: 600; }
.word.right { color: var(--good); }
.reason { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden;
  font-size: .76rem; line-height: 1.3; }
.first td:first-child, .first th:first-child { position: sticky; left: 0; background: var(--paper); }
ul.plain { list-style: none; padding: 0; margin: .4rem 0; font-size: .87rem; }
ul.plain li { padding: .3rem 0; border-bottom: 1px solid var(--rule); }
code { font: .8rem/1.4 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
details { margin-top: 2.75rem; border-top: 1px solid var(--rule); padding-top: .7rem; }
details + details { margin-top: 1rem; }
summary { cursor: pointer; font-size: 1.15rem; font-weight: 600; }
input { font: inherit; font-size: .87rem; color: inherit; background: var(--faint); border: 1px solid var(--rule);
  border-radius: 4px; padding: .35rem .6rem; margin: .7rem 0 .2rem; width: 22rem; max-width: 100%; }
.chart { height: 27rem; margin: .3rem 0 1rem; }
"""

FILTER_SCRIPT = """
for (const input of document.querySelectorAll("input[data-rows]")) {
  const rows = [...document.querySelectorAll("#" + input.dataset.rows + " tbody tr")];
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
"""

CHART_SCRIPT = """
const figures = JSON.parse(document.getElementById("figures").textContent);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const filled = (value) => {
  if (typeof value === "string") return value.startsWith("var:") ? colour(value.slice(4)) : value;
  if (Array.isArray(value)) return value.map(filled);
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, filled(inner)]));
  }
  return value;
};
const size = (n) => (n >= 1048576 ? n / 1048576 + "M" : n >= 1024 ? n / 1024 + "k" : String(n));
function draw() {
  figures.forEach((figure, index) => {
    const powers = Array.from({ length: 31 }, (_, power) => 2 ** power);
    const grid = { gridcolor: colour("--rule"), linecolor: colour("--muted"), zeroline: false };
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
      margin: { l: 70, r: 16, t: 12, b: 50 }, font: { color: colour("--ink"), size: 12, family: "system-ui, sans-serif" },
      legend: { x: 1.01, y: 1 },
      xaxis: { ...grid, type: "log", title: { text: "columns" }, tickvals: powers, ticktext: powers.map(size) },
      yaxis: { ...grid, title: { text: "GB/s" }, rangemode: "tozero" },
    };
    const options = { responsive: true, displaylogo: false, displayModeBar: false };
    Plotly.react("chart-" + index, filled(figure.traces), layout, options);
  });
}
draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
"""
