
function setUpBaseline(board, listeners) {
  const picker = document.getElementById("baseline");
  const show = (baseline) => {
    const speedups = speedupsOver(board, baseline);
    for (const place of document.querySelectorAll(".speedup")) {
      const value = meanSpeedup(board, speedups, Number(place.dataset.slice), Number(place.dataset.impl));
      place.textContent = value === null ? "-" : plusMinus(value);
    }
    const dagger = board.cells.some((cell) => cell.dagger && board.nameOf(cell) === baseline) ? "†" : "";
    for (const place of document.querySelectorAll(".baseline-name")) place.textContent = short(baseline) + dagger;
    for (const listener of listeners) listener(speedups, baseline);
  };
  const names = board.baselines;
  if (picker) {
    picker.selectedIndex = Math.max(names.indexOf(chosen("baseline")), 0);
    picker.addEventListener("change", () => {
      remember("baseline", picker.selectedIndex && names[picker.selectedIndex]);
      show(names[picker.selectedIndex]);
    });
  }
  show(names.length ? names[picker ? picker.selectedIndex : 0] : board.baseline);
}
