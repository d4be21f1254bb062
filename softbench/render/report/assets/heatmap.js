// The heat map, in the metric that the reader chooses: text and tint of each cell are softbench's own, but for speed-ups.

function shownAs(cell, metric, speedups) {
  if (metric !== "speedup") return cell.shown && cell.shown[metric];
  const ratio = speedups[cell.number] && speedups[cell.number].ratio;
  return ratio && [times(ratio), Math.min(Math.abs(Math.log2(ratio)) / 2, 1), ratio < 1];
}

function setUpHeatmap(board) {
  const cells = [...document.querySelectorAll(".heat td[data-cell]:not(.none)")];
  const choice = document.getElementById("metric");
  const inputs = choice ? [...choice.querySelectorAll("input")] : [];
  const first = inputs.find((input) => input.value === chosen("measure")) || inputs[0];
  let [metric, speedups] = [first ? first.value : "roof", []];
  const tints = document.getElementById("tints");
  const draw = () => {
    if (tints) tints.hidden = metric === "speedup";
    cells.forEach((place) => paint(place, shownAs(board.cells[place.dataset.cell], metric, speedups)));
  };
  if (choice) {
    choice.addEventListener("change", (event) => {
      metric = event.target.value;
      remember("measure", event.target !== inputs[0] && metric);
      draw();
    });
    first.checked = true;
    draw();
  }
  return (found) => {
    speedups = found;
    if (metric === "speedup") draw();
  };
}

function setUpRowFilter() {
  const rows = [...document.querySelectorAll(".heat tbody tr")];
  setUpFilter("rows", rows.map((row) => {
    const [title] = row.closest("table").getAttribute("aria-label").split(":");
    return [row, `${title} ${row.cells[0].innerText} ${row.cells[0].title}`];
  }));
}

function paint(place, shown) {
  const [text, heat, less] = shown || ["-", 0, false];
  place.firstChild.textContent = text;
  place.style.setProperty("--heat", heat);
  place.classList.toggle("below", less);
}
