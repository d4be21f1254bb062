// For printing: light colours, and short folded parts unfolded.

function setUpPrint() {
  let [before, opened] = [undefined, []];
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    opened = [...document.querySelectorAll("details.print-open:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    for (const details of opened) details.open = false;
  });
}
