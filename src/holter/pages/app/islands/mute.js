// Mutes a rule: folds its findings away, in this browser only.

const KEY = "holter.muted";

/** @returns {Set<string>} */
function muted() {
  try {
    return new Set(JSON.parse(localStorage.getItem(KEY) ?? "[]"));
  } catch {
    return new Set();
  }
}

/** @param {HTMLElement} element */
export function mount(element) {
  const rule = element.dataset.rule ?? "";
  const button = Object.assign(document.createElement("button"), { type: "button" });
  const say = () => {
    const quiet = muted().has(rule);
    element.toggleAttribute("data-muted", quiet);
    button.textContent = quiet ? "Muted" : "Mute";
    button.setAttribute("aria-pressed", String(quiet));
    button.setAttribute("aria-label", `mute ${rule}`);
  };
  button.addEventListener("click", () => {
    const all = muted();
    if (!all.delete(rule)) all.add(rule);
    try {
      localStorage.setItem(KEY, JSON.stringify([...all]));
    } catch {
      // A browser that keeps nothing forgets it with the page.
    }
    say();
  });
  element.replaceChildren(button);
  say();
}
