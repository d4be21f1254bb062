// The filter of the table of every cell: it shows the rows that contain all words.

function setUpFilter() {
  const input = document.getElementById("cells-filter");
  if (!input) return;
  const rows = [...document.querySelectorAll("#cells-table tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const count = document.querySelector("#cells .count");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = !words.every((word) => texts[index].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = words.length ? `${shown} of ${rows.length}` : "";
  });
}
