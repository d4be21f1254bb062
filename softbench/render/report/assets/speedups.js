// All speed-ups of the page are over the baseline that the reader picks.

function setUpBaseline(board, listeners) {
  const picker = document.getElementById("baseline");
  const show = (baseline) => {
    const speedups = speedupsOver(board, baseline);
    for (const place of document.querySelectorAll(".speedup")) {
      const value = meanSpeedup(board, speedups, Number(place.dataset.slice), Number(place.dataset.impl));
      place.textContent = value === null ? "-" : plusMinus(value);
    }
    for (const place of document.querySelectorAll(".baseline-name")) place.textContent = short(baseline);
    for (const listener of listeners) listener(speedups, baseline);
  };
  const names = board.baselines;
  if (picker) picker.addEventListener("change", () => show(names[Number(picker.value)]));
  show(names.length ? names[0] : board.baseline);
}
