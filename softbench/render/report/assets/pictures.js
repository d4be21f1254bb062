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
  const width = Math.ceil(Math.max(outer.width, 10 * title.length, 7 * note.length) + 2 * MARGIN);
  const height = Math.ceil(outer.height + TITLE + MARGIN + (note ? 20 : 0));
  const [x, y] = [MARGIN - outer.left, TITLE - outer.top];
  const cells = [...table.querySelectorAll("th, td")].flatMap((cell) => drawCell(cell, x, y));
  const told = { x: MARGIN, y: height - 12, "font-size": 12, fill: "var(--muted)" };
  return document_(title, lead, [width, height], [...cells, note && svg("text", told, note)]);
}

// A cell: its tint, the rule below it, the sign of an implementation, and its lines.
function drawCell(cell, x, y) {
  const [box, style] = [cell.getBoundingClientRect(), getComputedStyle(cell)];
  const at = { x: (box.left + x).toFixed(1), y: (box.top + y).toFixed(1), width: box.width.toFixed(1) };
  const heat = Number(style.getPropertyValue("--heat")) * 0.42;
  const tint = `var(--${cell.matches(".below") ? "less" : "more"})`;
  const right = style.textAlign === "right";
  const lines = cell.innerText.split("\n").filter((line) => line.trim());
  const mark = cell.querySelector("i.key path");
  const parts = [
    svg("rect", { ...at, height: box.height.toFixed(1), fill: tint, "fill-opacity": heat.toFixed(3) }),
    svg("path", { d: `M${at.x} ${(box.bottom + y - 0.5).toFixed(1)}h${at.width}`, stroke: "var(--rule)" }),
    ...lines.map((text, line) => svg("text", {
      x: (right ? box.right + x - 8 : box.left + x + (mark ? 24 : 8)).toFixed(1), "text-anchor": right ? "end" : "start",
      y: (box.top + y + (box.height * (line + 1)) / (lines.length + 1) + 4).toFixed(1), "font-weight": style.fontWeight, "font-size": 12,
    }, text.trim().slice(0, 150))),
  ];
  if (mark) {
    const copy = mark.cloneNode();
    copy.setAttribute("transform", `translate(${(box.left + x + 14).toFixed(1)} ${(box.top + y + 10).toFixed(1)})`);
    parts.push(copy);
  }
  return parts;
}
