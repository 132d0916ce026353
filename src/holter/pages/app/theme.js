// Applies the theme before the first paint, so that nothing flashes. Not a module.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("holter.theme");
  } catch {
    // A browser that keeps nothing follows its system.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
