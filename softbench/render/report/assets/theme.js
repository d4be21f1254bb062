// Light or dark: as the system says, until the reader says otherwise; kept while the page stays open and over a reload.

const THEMES = ["system", "light", "dark"];

function setUpTheme(changed) {
  const button = document.getElementById("theme");
  const show = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `theme: ${theme}`;
  };
  show(remembered() || "system");
  button.addEventListener("click", () => {
    const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "system") + 1) % THEMES.length];
    show(theme);
    remember(theme);
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

// A browser may forbid a file to store anything.
function remembered() {
  try {
    const theme = sessionStorage.getItem("softbench-theme");
    return THEMES.includes(theme) ? theme : null;
  } catch {
    return null;
  }
}

function remember(theme) {
  try {
    sessionStorage.setItem("softbench-theme", theme);
  } catch {
    // The choice holds until the page is closed.
  }
}

// What a colour of the style sheet is just now; the variable itself would answer with both of its forms.
function colour(name) {
  return computedColour(`var(${name})`);
}

function computedColour(value) {
  const probe = element("span", { style: `color: ${value}`, hidden: true });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
