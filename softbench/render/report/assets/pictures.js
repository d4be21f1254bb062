// Saves tables that are figures, as they are shown, as SVG or PNG: rectangles, texts and signs at the browser's own places.

const PICTURED = "table.heat, table.matrix, table.ladder";
const [MARGIN, TITLE, LONGEST] = [16, 56, 16000];

function setUpPictures() {
  for (const section of document.querySelectorAll("main > section")) {
    const tables = [...section.querySelectorAll(PICTURED)].map((table) => ({ table, label: table.getAttribute("aria-label") }));
    if (!tables.length) continue;
    section.querySelector(".lead").after(pictureControls(section, tables));
  }
}

function pictureControls(section, tables) {
  const title = section.querySelector("h2").textContent;
  let chosen = tables[0];
  const save = (format) => element("button", {
    type: "button", "aria-label": `save ${title} as ${format}`,
    onclick: () => saveTable(section, chosen, format),
  }, format);
  const options = tables.map(({ label }, index) => element("option", { value: index }, short(label, 90)));
  const picker = element("select", { onchange: (event) => { chosen = tables[Number(event.target.value)]; } }, options);
  return element("div", { class: "figure-controls" }, element("span", { class: "spring" }),
    tables.length > 1 ? element("label", {}, "save ", picker) : "save", element("span", { class: "wide" }, "as"), save("SVG"), save("PNG"));
}

function saveTable(section, { table, label }, format) {
  const title = [section.querySelector("h2").textContent, measureOf(section), label].filter(Boolean).join(": ");
  const said = { title: short(title, 160), lead: section.querySelector(".lead").textContent, note: noteOf(section, table) };
  const drawn = inLight(() => shown(table, () => drawTable(table, said)));
  savePicture(drawn, `softbench-${section.id}-${label.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60)}`, format);
}

// Calls look() in the light theme, whatever the reader has: pictures go into papers.
function inLight(look) {
  const { dataset } = document.documentElement;
  const before = dataset.theme;
  dataset.theme = "light";
  const found = look();
  if (before) dataset.theme = before;
  else delete dataset.theme;
  return found;
}

// The picture with its colours in words that any reader of SVG knows, and the GPU and the run below its title.
function document_(title, said, [width, height], parts) {
  const origin = document.querySelector("main").dataset.origin || "";
  const look = { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "font-family": "sans-serif", "font-size": 13 };
  return svg("svg", { ...look, fill: "var(--ink)" }, svg("title", {}, title), svg("desc", {}, said),
    svg("rect", { width, height, fill: "var(--paper)" }), svg("text", { x: MARGIN, y: 24, "font-size": 16, "font-weight": 600 }, title),
    svg("text", { x: MARGIN, y: 40, "font-size": 11, fill: "var(--muted)" }, origin), ...parts);
}

async function savePicture(drawn, name, format) {
  const light = (_, variable) => inLight(() => colour(variable));
  const text = `${new XMLSerializer().serializeToString(drawn).replace(/var\((--\w+)\)/g, light)}\n`;
  const blob = format === "SVG" ? new Blob([text], { type: "image/svg+xml" }) : await rastered(drawn, text);
  const link = element("a", { href: URL.createObjectURL(blob), download: `${name}.${format.toLowerCase()}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// The metric that the heat map shows.
function measureOf(section) {
  const chosen = section.querySelector("#metric :checked");
  if (!chosen) return "";
  const over = chosen.value === "speedup" ? ` over ${document.getElementById("baseline").selectedOptions[0].textContent}` : "";
  return chosen.parentElement.textContent.trim() + over;
}

const noteOf = (section, table) => (table.matches(".heat") ? section.querySelector(".note").textContent : "");

// Calls look() while the table is unfolded and not scrolled.
function shown(table, look) {
  const folded = table.closest("details:not([open])");
  const frame = table.parentElement;
  const scrolled = frame.scrollLeft;
  if (folded) folded.open = true;
  frame.scrollLeft = 0;
  const found = look();
  frame.scrollLeft = scrolled;
  if (folded) folded.open = false;
  return found;
}

async function rastered(drawn, text) {
  const [width, height] = ["width", "height"].map((side) => Number(drawn.getAttribute(side)));
  const scale = Math.min(2, LONGEST / width, LONGEST / height);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = element("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}

function drawTable(table, { title, lead, note }) {
  const outer = table.getBoundingClientRect();
  const at = (x, y) => ({ x: (x - outer.left + MARGIN).toFixed(1), y: (y - outer.top + TITLE).toFixed(1) });
  const flat = flattener();
  const width = Math.ceil(Math.max(outer.width, 10 * title.length, 7 * note.length) + 2 * MARGIN);
  const height = Math.ceil(outer.height + TITLE + MARGIN + (note ? 20 : 0));
  const told = { x: MARGIN, y: height - 12, "font-size": 12, fill: flat(colour("--muted")) };
  return document_(title, lead, [width, height], [note && svg("text", told, note),
    ...[...table.querySelectorAll("th, td")].flatMap((cell) => drawCell(cell, at, flat)),
    ...[...table.querySelectorAll("i.key path")].map((path) => drawSign(path, at)),
    ...textsOf(table).map((text) => drawText(text, at, flat))]);
}

function drawCell(cell, at, flat) {
  const [box, style] = [cell.getBoundingClientRect(), getComputedStyle(cell)];
  const bar = cell.matches(".bar");
  const [across, down] = bar ? [Number(style.getPropertyValue("--share")), 0.7] : [1, 1];
  const fill = flat(bar ? computedColour("color-mix(in srgb, var(--more) 22%, transparent)") : style.backgroundColor);
  const sides = { width: (box.width * across).toFixed(1), height: (box.height * down).toFixed(1) };
  const line = { ...at(box.left, box.bottom - 1), width: box.width.toFixed(1), height: 1, fill: flat(style.borderBottomColor) };
  return [svg("rect", { ...at(box.left, box.top + box.height * (1 - down) / 2), ...sides, fill }), svg("rect", line)];
}

function drawSign(path, at) {
  const box = path.ownerSVGElement.getBoundingClientRect();
  const scale = Math.min(box.width, box.height) / 12;
  const { x, y } = at(box.left + box.width / 2, box.top + box.height / 2);
  const copy = path.cloneNode();
  copy.setAttribute("transform", `translate(${x} ${y}) scale(${scale.toFixed(3)})`);
  return copy;
}

// The baseline of letters is a fifth of their box above its bottom.
function drawText({ text, box, style }, at, flat) {
  const look = { "font-size": parseFloat(style.fontSize), "font-weight": style.fontWeight, fill: flat(style.color) };
  return svg("text", { ...at(box.left, box.top + 0.8 * box.height), ...look }, text);
}

// The texts of a table, line by line as the browser has wrapped them.
function textsOf(table) {
  const found = [];
  const walker = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest(".unseen")) continue;
    const style = getComputedStyle(node.parentElement);
    let last = null;
    for (const word of node.data.matchAll(/\S+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const box = range.getBoundingClientRect();
      if (!box.width) continue;
      if (last && Math.abs(last.box.top - box.top) < 2) last.text += ` ${word[0]}`;
      else found.push(last = { text: word[0], box, style });
    }
  }
  return found;
}

// A colour mixed with the background of the page: SVG readers know no color-mix().
function flattener() {
  const drawn = element("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const paper = colour("--paper");
  const known = new Map();
  return (value) => {
    if (!known.has(value)) {
      for (const layer of [paper, value]) {
        drawn.fillStyle = layer;
        drawn.fillRect(0, 0, 1, 1);
      }
      const [red, green, blue] = drawn.getImageData(0, 0, 1, 1).data;
      known.set(value, `rgb(${red},${green},${blue})`);
    }
    return known.get(value);
  };
}
