// Draws each figure with plotly.js when it comes near the window, and adds a table of the same points.

function setUpCharts(board, open) {
  const library = lazily(async () => runScript(await unpack("library")));
  const charts = [...document.querySelectorAll("figure[data-figure]")].map((place) => {
    const figure = board.figures.find((entry) => entry.key === place.dataset.figure);
    return makeChart(board, figure, place, library, open);
  });
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      charts.find((chart) => chart.place === entry.target).draw();
    }
  }, { rootMargin: "300px" });
  for (const chart of charts) watcher.observe(chart.place);
  return {
    redraw: () => charts.filter((chart) => chart.drawn()).forEach((chart) => chart.draw()),
    drawAll: async () => {
      for (const chart of charts) {
        await idle();
        await chart.draw();
      }
    },
    redrawNow: (paper) => charts.forEach((chart) => chart.drawNow(paper)),
  };
}

// Resolves when the browser is idle; not every browser supports that.
function idle() {
  return new Promise((resolve) => {
    if (window.requestIdleCallback) requestIdleCallback(resolve, { timeout: 2000 });
    else setTimeout(resolve, 50);
  });
}

function lazily(start) {
  let started = null;
  return () => (started ||= start());
}

function makeChart(board, figure, place, library, open) {
  const target = place.querySelector(".chart");
  let [view, done] = [0, false];
  target.classList.toggle("tall", figure.panes.length > 1);
  target.classList.toggle("words", figure.x.scale === "words");
  const makeRoom = () => { target.style.minHeight = legendRoom(figure, view, target.clientWidth); };
  makeRoom();  // before it is drawn, so that the content below does not move
  const drawNow = (paper) => {
    if (typeof Plotly === "undefined") return;
    if (!paper) makeRoom();
    const layout = layoutOf(figure, view, paper ? paper.width : target.clientWidth);
    if (paper) Object.assign(layout, { width: paper.width, height: target.matches(".tall, .words") ? paper.tall : paper.height });
    Plotly.react(target, tracesOf(board, figure, view), layout, CONFIG);
    if (!done) target.on("plotly_click", (event) => openPoint(event, open));
    done = true;
    target.dataset.drawn = figure.views[view].label;
  };
  const draw = async () => {
    await library();
    drawNow(null);
  };
  const table = tableOf(figure, () => view);
  const choose = (chosen) => {
    view = chosen;
    table.rebuild();
    draw();
  };
  place.prepend(figureControls(figure, target, choose, draw));
  place.append(table.details);
  return { place, draw, drawNow, drawn: () => done };
}

// A legend next to its figure must not scroll: the page is printed and photographed.
function legendRoom(figure, view, width) {
  if (width < NARROW || figure.panes.length > 1) return "";
  const names = new Set(figure.views[view].series.map((entry) => entry.name));
  return `${29 * names.size + (figure.x.scale === "words" ? 150 : 90)}px`;
}

const CONFIG = { responsive: true, displaylogo: false, displayModeBar: false };

function openPoint(event, open) {
  const number = event.points[0].customdata;
  if (Number.isInteger(number) && number >= 0) open(number);
}

function figureControls(figure, target, choose, draw) {
  const save = (format) => element("button", {
    type: "button", "aria-label": `save ${figure.title} as ${format.toUpperCase()}`,
    onclick: async () => {
      await draw();
      Plotly.downloadImage(target, { format, filename: `softbench-${figure.key}`, width: 1000, height: 560, scale: 2 });
    },
  }, format.toUpperCase());
  const views = figure.views.map((view, index) => element("option", { value: index }, short(view.label, 90)));
  const picker = element("select", { onchange: (event) => choose(Number(event.target.value)) }, views);
  return element("div", { class: "figure-controls" },
    figure.views.length > 1 ? element("label", {}, "show ", picker) : element("span", {}, nameElement(figure.views[0].label, 90)),
    element("span", { class: "spring" }), element("span", { class: "wide" }, "save as"), save("svg"), save("png"));
}

// One row per key, one column per name; built when it is opened.
function tableOf(figure, chosen) {
  const details = element("details", { class: "small" }, element("summary", {}, "the same as a table"));
  const rebuild = () => {
    while (details.children.length > 1) details.lastChild.remove();
    if (!details.open) return;
    const series = figure.views[chosen()].series.filter((entry) => entry.keys.some(Boolean));
    const names = [...new Set(series.map((entry) => entry.name))];
    const rows = new Map();
    for (const entry of series) {
      entry.keys.forEach((key, index) => {
        if (!key) return;
        if (!rows.has(key)) rows.set(key, new Map());
        rows.get(key).set(entry.name, String(entry.y[index]));
      });
    }
    const body = [...rows].map(([key, values]) => [nameElement(key, 60), ...names.map((name) => values.get(name) || "")]);
    const unit = figure.panes.length > 1 ? "" : `, ${figure.panes[0].title}`;
    details.append(tableElement(`${figure.title}${unit}`, [figure.title + unit, ...names.map((name) => nameElement(name))], body));
  };
  details.addEventListener("toggle", rebuild);
  return { details, rebuild };
}
