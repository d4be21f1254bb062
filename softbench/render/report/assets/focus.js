// The implementation that a reader follows: others are grey in the figures, and the list of what it loses is open.

function setUpFocus(board) {
  const picker = document.getElementById("focus");
  if (!picker) return;
  const show = () => {
    const number = board.implementations.indexOf(picker.value);
    document.querySelectorAll(".drawn g[data-impl]").forEach((place) => {
      place.classList.toggle("dim", number >= 0 && Number(place.dataset.impl) !== number);
    });
    document.querySelectorAll("table.ranking tr:has([data-impl])").forEach((row) => {
      row.classList.toggle("here", Boolean(row.querySelector(`[data-impl="${number}"]`)));
    });
    for (const list of document.querySelectorAll(".loss")) list.open = list.dataset.of === picker.value;
    remember("focus", picker.value);
  };
  picker.selectedIndex = Math.max([...picker.options].findIndex((option) => option.value === chosen("focus")), 0);
  picker.addEventListener("change", () => {
    show();
    document.querySelector(".loss[open]")?.scrollIntoView();
  });
  show();
}
