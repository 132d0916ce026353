// A flame graph: zoom into a function by click or keyboard, search, turn it upside down.

import { lay, find } from "../flame_layout.js";
import { counted, number, plain } from "../words.js";

/** @typedef {import("../page.js").Page} Page */
/** @typedef {import("../flame_layout.js").Node} Node */
/** @typedef {import("../flame_layout.js").Bar} Bar */

const ROW = 18;
const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {HTMLElement} element
 * @param {Page} page
 */
export async function mount(element, page) {
  /** @type {Node | null} */
  let root = null;
  /** @type {Node[]} from the whole to what is zoomed into */
  let path = [];
  /** @type {Bar[]} */
  let bars = [];
  let chosen = 0; // index into bars
  let words = "";
  let upward = false;

  const { bar, search, flip, out, said } = controls();
  const place = Object.assign(document.createElement("div"), { className: "flame", tabIndex: 0 });
  place.setAttribute("role", "application");
  place.setAttribute("aria-label", `${element.dataset.title ?? "flame graph"}: arrows choose, Enter zooms in, Escape out`);
  const told = Object.assign(document.createElement("p"), { className: "told" });
  told.setAttribute("role", "status");

  async function load() {
    const { mode, phase, rank, first, last } = element.dataset;
    const answer = await page.ask("flames", { mode, phase, rank, first, last });
    const mine = answer.flames.find((/** @type {any} */ one) => `${one.source}: ${one.name}` === element.dataset.key);
    if (!mine) return;
    const names = path.slice(1).map((node) => node.name);
    root = /** @type {Node} */ (mine.flame);
    path = [root];
    for (const name of names) {
      const next = path[path.length - 1].children?.find((child) => child.name === name);
      if (!next) break;
      path.push(next);
    }
    if (!place.isConnected) element.replaceChildren(bar, place, told);
    draw();
  }

  function draw() {
    if (!root) return;
    const width = place.clientWidth || 800;
    bars = lay(path, width);
    chosen = Math.min(path.length - 1, bars.length - 1);
    const rows = 1 + Math.max(...bars.map((one) => one.row));
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("width", String(width));
    svg.setAttribute("height", String(rows * ROW));
    svg.setAttribute("aria-hidden", "true");
    const found = find(bars, words);
    bars.forEach((one, at) => svg.append(drawn(one, at, rows, found)));
    place.replaceChildren(svg);
    said.textContent = words && root ? matched(found) : "";
    out.disabled = path.length < 2;
    tell();
  }

  /**
   * @param {Bar} one
   * @param {number} at
   * @param {number} rows
   * @param {Set<Bar>} found
   */
  function drawn(one, at, rows, found) {
    const group = document.createElementNS(SVG, "g");
    const top = (upward ? rows - 1 - one.row : one.row) * ROW;
    const rect = document.createElementNS(SVG, "rect");
    set(rect, { x: one.left, y: top, width: Math.max(one.width, 0.5), height: ROW - 1 });
    rect.setAttribute("class", `h${one.hue}${words && !found.has(one) ? " faint" : ""}${one.row < path.length - 1 ? " above" : ""}`);
    group.append(rect);
    const room = Math.floor((one.width - 6) / 6.4);
    if (room > 2) {
      const text = document.createElementNS(SVG, "text");
      set(text, { x: one.left + 3, y: top + 13 });
      const name = plain(one.node.name);
      text.textContent = name.length <= room ? name : `${name.slice(0, room - 1)}…`;
      group.append(text);
    }
    group.dataset.at = String(at);
    return group;
  }

  /** @param {Set<Bar>} found */
  function matched(found) {
    // What lies below another hit is part of its time.
    let sum = 0;
    let until = -1;
    for (const one of [...found].sort((a, b) => a.left - b.left || a.row - b.row)) {
      if (one.left < until - 1e-6) continue;
      sum += one.node.value;
      until = one.left + one.width;
    }
    return `${counted(found.size, "bar")}: ${duration(sum)}, ${percent(sum, path[path.length - 1].value)} of what is shown`;
  }

  function tell() {
    const svg = place.querySelector("svg");
    svg?.querySelector(".chosen")?.classList.remove("chosen");
    svg?.children[chosen]?.classList.add("chosen");
    const one = bars[chosen];
    if (!one || !root) return;
    const own = one.node.value - (one.node.children ?? []).reduce((sum, child) => sum + child.value, 0);
    told.textContent =
      `${one.node.name}: ${duration(one.node.value)}, ${percent(one.node.value, root.value)} of all; ` +
      `self ${duration(Math.max(own, 0))}`;
  }

  /** @param {number} at */
  function zoom(at) {
    const one = bars[at];
    if (!one) return;
    path = one.path;
    draw();
  }

  function leave() {
    if (path.length < 2) return;
    path = path.slice(0, -1);
    draw();
  }

  place.addEventListener("click", (event) => {
    const at = /** @type {Element} */ (event.target).closest("g")?.getAttribute("data-at");
    if (at) zoom(Number(at));
    place.focus();
  });
  place.addEventListener("pointermove", (event) => {
    const at = /** @type {Element} */ (event.target).closest("g")?.getAttribute("data-at");
    if (!at || Number(at) === chosen) return;
    chosen = Number(at);
    tell();
  });
  place.addEventListener("keydown", (event) => {
    const one = bars[chosen];
    if (!one || event.ctrlKey || event.metaKey || event.altKey) return;
    const vertical = upward ? -1 : 1;
    /** @type {Record<string, () => number | undefined>} */
    const moves = {
      ArrowLeft: () => beside(one, -1),
      ArrowRight: () => beside(one, 1),
      ArrowDown: () => level(one, vertical),
      ArrowUp: () => level(one, -vertical),
    };
    const to = moves[event.key];
    if (to) {
      chosen = to() ?? chosen;
      tell();
    } else if (event.key === "Enter" || event.key === " ") zoom(chosen);
    else if (event.key === "Escape" || event.key === "Backspace") {
      if (path.length < 2) return;
      leave();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  /** @param {Bar} one @param {number} by */
  function beside(one, by) {
    const row = bars.filter((other) => other.row === one.row).sort((a, b) => a.left - b.left);
    const next = row[row.indexOf(one) + by];
    return next && bars.indexOf(next);
  }

  /** @param {Bar} one @param {number} by */
  function level(one, by) {
    const row = bars.filter((other) => other.row === one.row + by);
    const over = row.filter((other) => other.left < one.left + one.width && other.left + other.width > one.left);
    const next = over.sort((a, b) => b.width - a.width)[0];
    return next && bars.indexOf(next);
  }

  search.addEventListener("input", () => {
    words = search.value;
    draw();
  });
  flip.addEventListener("click", () => {
    upward = !upward;
    flip.setAttribute("aria-pressed", String(upward));
    draw();
  });
  out.addEventListener("click", leave);

  await load();
  let drawnWidth = place.clientWidth;
  const size = new ResizeObserver(() => {
    if (place.clientWidth === drawnWidth) return;
    drawnWidth = place.clientWidth;
    draw();
  });
  size.observe(element);
  const off = page.keys("search the flame graph", "f", () => search.focus());
  return {
    update: () => void load().catch(() => element.classList.add("failed")),
    destroy() {
      size.disconnect();
      off();
    },
  };
}

function controls() {
  const bar = Object.assign(document.createElement("div"), { className: "search" });
  const search = Object.assign(document.createElement("input"), { type: "search", placeholder: "part of a name" });
  search.setAttribute("aria-label", "search the flame graph");
  const button = (/** @type {string} */ text) => Object.assign(document.createElement("button"), { type: "button", textContent: text });
  const [flip, out] = [button("upside down"), button("zoom out")];
  flip.setAttribute("aria-pressed", "false");
  const said = Object.assign(document.createElement("span"), { className: "dim" });
  said.setAttribute("role", "status");
  bar.append(search, flip, out, said);
  return { bar, search, flip, out, said };
}

/** @param {Element} of @param {Record<string, number>} values */
function set(of, values) {
  for (const [name, value] of Object.entries(values)) of.setAttribute(name, String(Math.round(value * 10) / 10));
}

/** @param {number} part @param {number} whole */
const percent = (part, whole) => `${((100 * part) / (whole || 1)).toFixed(1)} %`;

/** @param {number} ns */
const duration = (ns) => (ns >= 1e9 ? `${number(ns / 1e9)} s` : `${number(ns / 1e6)} ms`);
