// For printing: all figures drawn, in light colours, and short folded parts unfolded.

// Pixels that fit A4 and US Letter within the margins of print.css.
const PAPER = { width: 690, height: 340, tall: 480 };

function setUpPrint(charts) {
  let [before, opened] = [undefined, []];
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    opened = [...document.querySelectorAll("details.print-open:not([open])")];
    for (const details of opened) details.open = true;
    charts.redrawNow(PAPER);
  });
  addEventListener("afterprint", () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    for (const details of opened) details.open = false;
    charts.redraw();
  });
}
