
function setUpFilter(key, rows) {
  const input = document.getElementById(`${key}-filter`);
  if (!input) return;
  const texts = rows.map(([, text]) => text.toLowerCase());
  const count = input.closest("p").querySelector(".count");
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach(([row], index) => {
      row.hidden = !words.every((word) => texts[index].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    remember(key, input.value);
  };
  input.addEventListener("input", filter);
  input.value = chosen(key);
  if (input.value) filter();
}

function setUpCellFilter() {
  const rows = [...document.querySelectorAll("#cells-table tbody tr")];
  setUpFilter("cells", rows.map((row) => [row, row.textContent]));
  if (chosen("cells")) document.getElementById("cells").open = true;
}
