// What the reader chose, in the address: "#heatmap?measure=gbs&focus=quack". A link opens the page just so.

function readState() {
  const [panel, query = ""] = location.hash.slice(1).split("?");
  return { panel, params: new URLSearchParams(query) };
}

function remember(key, value) {
  const { panel, params } = readState();
  if (value) params.set(key, value);
  else params.delete(key);
  const query = String(params);
  history.replaceState(null, "", `#${panel}${query && `?${query}`}`);
}

const chosen = (key) => readState().params.get(key) || "";

function setUpState() {
  const show = () => {
    const place = document.getElementById(readState().panel);
    if (place) place.scrollIntoView({ behavior: "instant" });
  };
  let last = String(readState().params);
  for (const link of document.querySelectorAll(".toolbar nav a")) {
    link.addEventListener("click", () => { last = String(readState().params); });
  }
  addEventListener("hashchange", () => {
    const { panel, params } = readState();
    if (location.hash.includes("?")) {
      if (String(params) !== last) location.reload();
    } else if (last) {
      history.replaceState(null, "", `#${panel}?${last}`);
      show();
    }
  });
  show();
}
