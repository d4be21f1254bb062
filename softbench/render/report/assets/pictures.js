
const [MARGIN, TITLE, LONGEST] = [16, 56, 16000];

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
