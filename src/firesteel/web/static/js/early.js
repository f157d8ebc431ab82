// Puts the chosen colours on the document before anything is painted. Not a module, because modules run later.
"use strict";
try {
  const chosen = localStorage.getItem("firesteel.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden: then the system's choice it is.
}
