// Light or dark: what the system says, until somebody chooses.

const KEY = "firesteel.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

export function switchTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Storage may be forbidden: then the choice lasts as long as the page.
  }
  return next;
}

export function onSystemChange(listener) {
  system.addEventListener("change", listener);
}
