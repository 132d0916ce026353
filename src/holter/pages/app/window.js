// The controls in the page's head: the time window of all charts, time or steps, the theme, the help.

import { segmented } from "./header.js";
import { palette } from "./palette.js";
import { moment } from "./words.js";

/** @typedef {import("./page.js").Page} Page */

/** @param {Page} page */
export function bar(page) {
  const place = /** @type {HTMLElement} */ (document.getElementById("commands"));
  const theme = button("◐", "light or dark", () => page.setTheme(page.theme === "dark" ? "light" : "dark"));
  const help = button("?", "keyboard", () => page.keyboard.help());
  page.keys("this help", "?", () => page.keyboard.help());
  page.keys("light or dark", "t", () => theme.click());
  if (!page.alone) page.keys("the list of jobs", "g j", () => location.assign("/"));
  page.keys("search", "/", () => /** @type {HTMLElement | null} */ (document.querySelector("input[type=search]"))?.focus());
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("nav.pages a[data-page]"))) {
    const letter = letterOf(link.dataset.page ?? "");
    if (letter) page.keys(`page ${link.textContent}`, `g ${letter}`, () => link.click());
  }
  page.keys("next finding", "j", () => finding(1));
  page.keys("finding before", "k", () => finding(-1));
  const show = palette(page);
  const job = document.querySelector("header .job");
  if (job && page.job !== null && !page.alone) {
    const other = button(`${page.job} ▾`, "another job", () => show("jobs"));
    other.className = "job";
    job.replaceWith(other);
  }
  if (page.job !== null) place.append(...timeBar(page), ...comparison(page, show));
  const search = button("⌕", "commands (Ctrl-K)", () => show());
  search.classList.add("search-all");
  place.append(search, theme, help);
}

/** Go to another finding. @param {number} by */
function finding(by) {
  const all = [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("article.fired"))];
  const at = all.findIndex((one) => one.contains(document.activeElement));
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** @type {Set<string>} */
const taken = new Set(["j"]);

/** The first letter of a page's name that no other page has. @param {string} name */
function letterOf(name) {
  const letter = [...name].find((one) => /[a-z]/.test(one) && !taken.has(one));
  if (letter) taken.add(letter);
  return letter;
}

/** @param {Page} page */
function timeBar(page) {
  const text = Object.assign(document.createElement("span"), { className: "window" });
  const whole = button("×", "show the whole job", () => page.setRange(null));
  const axis = segmented("x axis", [["time", "Time"], ["step", "Step"]], (value) => page.setAxis(value));
  const moves = [
    button("−", "zoom out", () => zoom(page, 2)),
    button("+", "zoom in", () => zoom(page, 0.5)),
    button("‹", "earlier", () => pan(page, -0.5)),
    button("›", "later", () => pan(page, 0.5)),
  ];
  page.keys("zoom in", "w", () => zoom(page, 0.5));
  page.keys("zoom out", "s", () => zoom(page, 2));
  page.keys("earlier", "a", () => pan(page, -0.5));
  page.keys("later", "d", () => pan(page, 0.5));
  page.keys("the whole job; of a running one, follow it", "0", () => page.setRange(null));
  page.keys("the whole job", "Escape", () => page.setRange(null));
  page.keys("charts over time or over steps", "x", () => page.setAxis(page.axis === "time" ? "step" : "time"));
  const say = () => {
    const { from, to } = page.shown;
    const span = to - from;
    const follows = page.running && !page.range ? " · following" : "";
    text.textContent = page.range ? `${moment(from, span)} – ${moment(to, span)}` : `whole job${follows}`;
    whole.hidden = !page.range;
    axis.show(page.axis);
  };
  for (const what of /** @type {const} */ (["range", "axis", "live"])) page.on(what, say);
  say();
  // Pages without a chart over time need none of it.
  const shown = [text, whole, ...moves, axis.element];
  const over = "[data-island=figure],[data-island=heatmap],[data-island=timeline],[data-island=layer-map]";
  if (!page.alone && !page.main.querySelector(over)) for (const one of shown) one.hidden = true;
  for (const one of moves) one.classList.add("move");
  return shown;
}

/**
 * The choice of a baseline; of a chosen one, the link to the comparison in full.
 * @param {Page} page
 * @param {(among: "baseline") => void} show
 */
function comparison(page, show) {
  if (page.alone) return [];
  if (!page.baseline) {
    const made = button("Compare", "compare with another job", () => show("baseline"));
    made.classList.add("compare");
    return [made];
  }
  const name = page.baseline.includes("/") ? page.baseline : `${page.store}/${page.baseline}`;
  const chip = Object.assign(document.createElement("span"), { className: "chip" });
  const query = new URLSearchParams([["job", name], ["job", `${page.store}/${page.job}`]]);
  const link = Object.assign(document.createElement("a"), { href: `/compare?${query}`, textContent: `against ${name.replace(/^\d+\//, "")}` });
  link.title = "the whole comparison";
  chip.append(link, button("×", "end the comparison", () => page.compareWith(null)));
  return [chip];
}

/** @param {Page} page @param {number} factor */
function zoom(page, factor) {
  const { from, to } = page.shown;
  const [middle, half] = [(from + to) / 2, ((to - from) * factor) / 2];
  set(page, middle - half, middle + half);
}

/** @param {Page} page @param {number} share of the window */
function pan(page, share) {
  const { from, to } = page.shown;
  const by = Math.min(Math.max((to - from) * share, -from), page.seconds - to);
  set(page, from + by, to + by);
}

/** @param {Page} page @param {number} from @param {number} to */
function set(page, from, to) {
  if (to - from < 1e-3) return;
  if (from <= 0 && to >= page.seconds) page.setRange(null);
  else page.setRange({ from: Math.max(0, from), to: Math.min(page.seconds, to) });
}

/** @param {string} text @param {string} label @param {() => void} run */
function button(text, label, run) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: text, title: label });
  if (!/[a-z]/i.test(text)) made.setAttribute("aria-label", label);
  made.addEventListener("click", run);
  return made;
}
