// The head of the page: the state of the job, segmented choices, and what a chosen time window marks.

/** @typedef {import("./page.js").Page} Page */

/** @param {Page} page */
export function head(page) {
  const status = document.getElementById("status");
  const findings = document.querySelector("nav.pages a[data-drawer=findings]");
  const say = () => {
    const text = page.main.dataset.state;
    if (status && text && status.textContent !== text) status.textContent = text;
    const { findings: count } = page.main.dataset;
    if (findings && count !== undefined) findings.textContent = count ? `Findings (${count})` : "Findings";
    status?.classList.toggle("running", page.running);
    status?.classList.toggle("failed", page.main.dataset.status === "Failed");
  };
  const rank = /** @type {HTMLSelectElement | HTMLInputElement | null} */ (document.querySelector("form.rank [name=rank]"));
  rank?.addEventListener("change", () => {
    if (rank.checkValidity()) page.showRank(rank.value);
  });
  // Numbers of the whole job are marked while a window is chosen.
  const mark = () => document.documentElement.classList.toggle("windowed", page.range !== null);
  page.on("live", say);
  page.on("range", mark);
  say();
  mark();
}

/**
 * Buttons of which one is chosen.
 * @template {string} T
 * @param {string} label
 * @param {[T, string][]} options values and texts
 * @param {(value: T) => void} choose
 */
export function segmented(label, options, choose) {
  const element = Object.assign(document.createElement("span"), { className: "segmented" });
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", label);
  const buttons = options.map(([value, text]) => {
    const one = Object.assign(document.createElement("button"), { type: "button", textContent: text });
    one.addEventListener("click", () => choose(value));
    one.dataset.value = value;
    return one;
  });
  element.append(...buttons);
  /** @param {T} value */
  const show = (value) => {
    for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset.value === value));
  };
  return { element, show };
}
