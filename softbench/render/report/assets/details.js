// The details of one cell, in a dialog. Escape closes it, and the focus returns.

function setUpDetails(board) {
  const dialog = document.getElementById("details");
  let [speedups, baseline] = [[], ""];
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  const open = (number) => {
    const cell = board.cells[number];
    dialog.replaceChildren(detailsHead(board, cell, () => dialog.close()),
      element("div", { class: "body" }, detailsBody(board, cell, speedups, baseline, open)));
    dialog.querySelectorAll(".copyable").forEach(addCopyButton);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    dialog.querySelector("h2").focus();
    remember("cell", keyOf(board, cell));
  };
  dialog.addEventListener("close", () => remember("cell", ""));
  return { open, update: (found, name) => { [speedups, baseline] = [found, name]; } };
}

const keyOf = (board, cell) => `${board.cases[cell.case].id}::${board.variants[cell.variant].id}`;

function openChosen(board, open) {
  const cell = board.cells.find((own) => keyOf(board, own) === chosen("cell"));
  if (cell) open(cell.number);
}

function detailsHead(board, cell, close) {
  const variant = board.variants[cell.variant];
  const role = cell.role ? ` (${cell.role})` : cell.other ? " (not chosen)" : "";
  return element("div", { class: "bar-top" },
    element("div", {},
      element("h2", { id: "details-title", tabindex: "-1" }, nameElement(variant.id, 60), role),
      element("p", {}, nameElement(board.cases[cell.case].id, 80), " · ", statusElement(cell))),
    element("button", { type: "button", onclick: close }, "close"));
}

const SIGNS = { right: "✓", failed: "✗", declared: "✗", refused: "–" };

const statusElement = (cell) => element("span", { class: `status ${cell.kind}` }, `${SIGNS[cell.kind]} ${cell.status}`);

function detailsBody(board, cell, speedups, baseline, open) {
  const variant = board.variants[cell.variant];
  return [
    cell.reason ? element("pre", { class: "reason" }, cell.reason) : null,
    cell.known ? element("p", {}, "Declared beforehand: ", isolated(cell.known)) : null,
    element("dl", { class: "figures" }, cellFigures(board, cell, speedups, baseline).map(([term, said]) =>
      element("div", {}, element("dt", {}, term), element("dd", {}, said)))),
    cell.again ? element("h3", {}, "Repeat it") : null,
    cell.again ? element("span", { class: "copyable", dir: "ltr" }, element("code", {}, cell.again)) : null,
    ...sampleSection(cell),
    ...rivalsSection(board, cell, speedups, baseline, open),
    ...kernelSection(cell),
    ...telemetrySection(cell),
    element("h3", {}, "Source"),
    element("p", {}, isolated(variant.path), ` (${variant.family}, hash ${variant.source}). `, isolated(variant.summary)),
    cell.notes ? element("h3", {}, "Notes") : null,
    cell.notes ? element("ul", { class: "plain" }, cell.notes.map((note) => element("li", {}, isolated(note)))) : null,
  ];
}

const isolated = (text) => element("bdi", {}, text);

function cellFigures(board, cell, speedups, baseline) {
  const figures = [];
  const add = (term, value, said) => {
    if (value) figures.push([term, said(value)]);
  };
  const micro = (ns) => `${us(ns)} µs`;
  const percent = (value) => `${value.toFixed(1)} %`;
  add("rank in the case", cell.rank, (rank) => `${rank}${cell.mark || ""}`);
  add(`${board.clock}, median`, cell.ns, micro);
  add("its interval", cell.high, (high) => [`${us(cell.low || 0)} to ${us(high)} µs `, element("small", {}, cell.spread)]);
  if (!cell.high) add("its interval", cell.spread, (spread) => `unknown: ${spread}`);
  add("bandwidth", cell.gbs, (gbs) => `${gbs.toFixed(1)} GB/s`);
  add("arithmetic", cell.tflops, (tflops) => `${tflops.toFixed(1)} TFLOP/s`);
  add("% of roof", cell.roof, percent);
  add("% of peak", board.peak && cell.gbs, (gbs) => percent((100 * gbs) / board.peak));
  add(`over ${short(baseline)}`, speedups[cell.number], (ratio) => plusMinus(estimate([ratio], board.critical), 3));
  for (const clock of ["call", "device", "cold", "wall", "trial"]) {
    const heats = (cell.samples || []).filter((samples) => samples.clock === clock && clock !== board.clock);
    add(`${clock}, ${clock === "call" ? "fastest group" : "median"}`, heats.length, () => micro(median(heats.map(perLaunch))));
  }
  const most = (index) => Math.max(...cell.kernels.map((kernel) => kernel[index]));
  if (cell.kernels) {
    figures.push(["registers per thread", String(most(1))], ["stack (spills)", `${most(2)} B`], ["static shared", bytes(most(3))]);
  }
  if (cell.traffic) {
    const [factor, read, written, kernels, l1, l2, sectors, requests, local, conflicts, warps] = cell.traffic;
    add("traffic factor", factor, (value) => times(value, 3));
    figures.push(["read", bytes(read)], ["written", bytes(written)]);
    add("kernels under ncu", kernels, micro);
    add("L1 hits", l1, percent);
    add("L2 hits", l2, percent);
    add("sectors per load of a warp", requests, () => (sectors / requests).toFixed(1));
    add("loaded from local memory (spills)", local, () => bytes(32 * local));
    add("bank conflicts", conflicts, () => `${(conflicts / 1e6).toFixed(1)} M`);
    add("warps in use", warps, percent);
  }
  figures.push(...errorFigures(cell));
  add("ideal bytes", cell.ideal, bytes);
  add("best of", cell.best_of, (count) => plural(count, "variant"));
  if (cell.gpu) figures.push(["GPU", nameElement(cell.gpu)]);
  if (cell.warm) figures.push(["L2 cache", "warm"]);
  if (cell.unsteady) figures.push(["GPU in some rounds", "throttled or slower: see the notes"]);
  if (cell.overlap) figures.push(["launches", "overlap: in a replay each takes less time than alone"]);
  return figures;
}

function errorFigures(cell) {
  if (!cell.errors) return cell.kind === "right" && cell.role !== "roof" ? [["error", "within its bound, and not recorded"]] : [];
  const [largest, p99, bias, elements] = cell.errors;
  const sign = bias < 0 ? "−" : "+";
  return [["largest error", `${largest.toFixed(3)} of its bound`], ["99 % of errors", `up to ${p99.toFixed(3)}`],
    ["mean error", `${sign}${Math.abs(bias).toFixed(4)}`], ["elements measured", String(elements)]];
}

function sampleSection(cell) {
  const drawn = (cell.samples || []).map(sampleFigure).filter(Boolean);
  if (!drawn.length) return [];
  const note = "Circles are rounds, bars the median of a placement, the line that of all; µs per launch over placements.";
  return [element("h3", {}, "Samples"), element("p", { class: "note" }, note), element("div", { class: "samples" }, drawn)];
}

function rivalsSection(board, cell, speedups, baseline, open) {
  const order = (other) => (other.role === "roof" ? 0 : (other.ns || Infinity) + (other.role === "open" ? 1e15 : 0));
  const others = board.byCase[cell.case].filter((other) => !other.other).sort((a, b) => order(a) - order(b));
  if (others.length < 2) return [];
  const rows = others.map((other) => {
    const who = nameElement(board.nameOf(other));
    const go = { type: "button", class: "linkish", onclick: () => open(other.number) };
    const ratio = speedups[other.number];
    const row = [
      other === cell ? who : element("button", go, who),
      other.role || (other.rank ? `${other.rank}${other.mark || ""}` : other.dagger ? "†" : statusElement(other)),
      other.ns ? us(other.ns) : "",
      other.gbs ? other.gbs.toFixed(0) : "",
      other.roof ? other.roof.toFixed(1) : "",
      ratio ? times(ratio.ratio) : "",
    ];
    row.kind = other === cell ? "here" : "";
    return row;
  });
  const header = ["implementation", "rank", "µs", "GB/s", "% of roof", `over ${short(baseline)}`];
  return [element("h3", {}, "All cells of this case"), tableElement("all cells of this case", header, rows)];
}

function kernelSection(cell) {
  if (!cell.kernels) return [];
  const rows = cell.kernels.map(([name, registers, stack, shared]) =>
    [nameElement(name, 60), registers, `${stack} B`, bytes(shared)]);
  const header = ["kernel", "registers", "stack (spills)", "static shared"];
  return [element("h3", {}, "Compiled kernels"), tableElement("compiled kernels", header, rows)];
}

function telemetrySection(cell) {
  const known = (cell.telemetry || []).filter((state) => state.some((value) => value !== null && value !== ""));
  if (!known.length) return [];
  const written = (value) => (value === null ? "-" : String(value) || "none");
  const rows = cell.telemetry.map((state, index) => [String(index + 1), ...state.map(written)]);
  const header = ["placement", "SM MHz", "memory MHz", "W", "°C", "throttled by"];
  const throttled = known.filter((state) => state[4]).length;
  return [element("h3", {}, "Telemetry"), element("details", { class: "small" },
    element("summary", {}, `${plural(known.length, "reading")}, ${throttled ? `throttled in ${throttled}` : "none throttled"}`),
    tableElement("telemetry", header, rows))];
}
