
function addCopyButton(place) {
  const code = place.querySelector("code");
  const button = element("button", { type: "button", "aria-label": `copy: ${short(code.textContent, 60)}` }, "copy");
  button.addEventListener("click", async () => {
    const done = await copied(code);
    button.textContent = done ? "copied" : "press Ctrl+C";
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  });
  place.append(button);
}

async function copied(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(code);
    return false;
  }
}
