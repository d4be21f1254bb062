// One colour, sign and dash per implementation, by its number. Okabe and Ito's palette without black and yellow, which are
// invisible on a dark or a light page.

const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x"];
const DASHES = ["solid", "dash", "dashdot", "dot"];

function looksOf(number) {
  return {
    colour: COLOURS[number % COLOURS.length],
    symbol: SYMBOLS[number % SYMBOLS.length],
    open: Math.floor(number / SYMBOLS.length) % 2 === 1,
    dash: DASHES[Math.floor(number / COLOURS.length) % DASHES.length],
  };
}

// The signs of the figures, around (8, 5).
const SIGN_PATHS = {
  circle: "M8,1.2a3.8,3.8 0 1 0 .01,0z",
  square: "M4.6,1.6h6.8v6.8h-6.8z",
  diamond: "M8,0l5,5l-5,5l-5,-5z",
  "triangle-up": "M8,.6l4.6,7.8h-9.2z",
  cross: "M6.6,.8h2.8v2.8h2.8v2.8h-2.8v2.8h-2.8v-2.8h-2.8v-2.8h2.8z",
  x: "M5.2,.2l2.8,2.8l2.8,-2.8l2,2l-2.8,2.8l2.8,2.8l-2,2l-2.8,-2.8l-2.8,2.8l-2,-2l2.8,-2.8l-2.8,-2.8z",
};

function drawKeys() {
  for (const place of document.querySelectorAll("i.key")) {
    const { colour, symbol, open } = looksOf(Number(place.dataset.impl));
    const style = { fill: open ? "none" : colour, stroke: colour, "stroke-width": 1.6, d: SIGN_PATHS[symbol] };
    place.append(svg("svg", { viewBox: "0 0 16 10", "aria-hidden": "true" }, svg("path", style)));
  }
}
