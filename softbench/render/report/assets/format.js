// Numbers as text, as in the terminal, and elements from plain values. Text is never read as HTML.

const us = (ns) => (ns / 1e3).toFixed(2);
const digits = (value, most) => most + (value > 0 ? Math.max(0, Math.floor(-Math.log10(value))) : 0);
const times = (factor, most = 2) => `${factor.toFixed(digits(factor, most))}×`;
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(count, 1)) / 3));
  return `${(count / 1000 ** power).toFixed(power ? 2 : 0)} ${units[power]}`;
}

// Cut in the middle, since variants differ at their ends.
function short(name, limit = 24) {
  const flat = name.split(/\s+/).filter(Boolean).join(" ");
  const tail = (limit - 1) >> 1;
  return flat.length <= limit ? flat : `${flat.slice(0, limit - 1 - tail)}…${flat.slice(-tail)}`;
}

function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function nameElement(text, limit = 24) {
  const shown = short(text, limit);
  return element("bdi", { title: shown === text ? null : text }, shown);
}

function tableElement(label, header, rows) {
  const head = element("tr", {}, header.map((text, index) => element("th", { scope: "col", class: index ? null : "label" }, text)));
  const body = rows.map((row) =>
    element("tr", { class: row.kind || null }, row.map((content, index) =>
      element(index ? "td" : "th", index ? {} : { scope: "row", class: "label" }, content))));
  const table = element("table", { "aria-label": label }, element("thead", {}, head), element("tbody", {}, body));
  return element("div", { class: "frame", tabindex: "0", role: "region", "aria-label": `${label}, scrolls` }, table);
}
