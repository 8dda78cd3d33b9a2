// Loaded before anything is painted: the theme that was chosen last, if any.
"use strict";
(() => {
  const root = document.documentElement;
  const order = ["auto", "dark", "light"];
  let theme = "auto";
  try {
    theme = localStorage.getItem("theme") || "auto";
  } catch {
    // No storage for pages from files in this browser: the choice holds until the page is closed.
  }
  function apply() {
    root.dataset.theme = order.includes(theme) ? theme : "auto";
  }
  apply();
  window.nextTheme = () => {
    theme = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // As above.
    }
    apply();
    document.dispatchEvent(new Event("theme"));
    return theme;
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new Event("theme")),
  );
})();
