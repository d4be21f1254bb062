// For printing: short folded parts unfolded. Colours on paper are those of print.css.

function setUpPrint() {
  let opened = [];
  const open = (is) => opened.forEach((details) => { details.open = is; });
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.print-open:not([open])")];
    open(true);
  });
  addEventListener("afterprint", () => open(false));
}
