// Light or dark: as the system, until the reader chooses; kept over a reload while the page is open.

const THEMES = ["system", "light", "dark"];

function setUpTheme() {
  const button = document.getElementById("theme");
  const show = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `theme: ${theme}`;
  };
  show(keptTheme() || "system");
  button.addEventListener("click", () => {
    const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "system") + 1) % THEMES.length];
    show(theme);
    keepTheme(theme);
  });
}

// A browser may not let a file store anything.
function keptTheme() {
  try {
    const theme = sessionStorage.getItem("softbench-theme");
    return THEMES.includes(theme) ? theme : null;
  } catch {
    return null;
  }
}

function keepTheme(theme) {
  try {
    sessionStorage.setItem("softbench-theme", theme);
  } catch {
  }
}

// The current value of a colour of the style sheet; the variable itself gives both of its forms.
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
