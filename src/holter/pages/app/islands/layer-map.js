// A map of layers over steps that shows the value of the cell at the pointer or the keyboard cursor.

import { note } from "../note.js";
import { number } from "../words.js";

/** @typedef {import("../page.js").Page} Page */
/** @typedef {import("../figures.js").Figure} Figure */

/** @type {Record<string, [number, number]>} rows and columns */
const WALKS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-12, 0], PageDown: [12, 0] };

/**
 * @param {HTMLElement} element
 * @param {Page} page
 */
export async function mount(element, page) {
  /** @type {Figure | null} */
  let of = null;
  let at = { row: 0, column: 0 };
  const told = Object.assign(document.createElement("p"), { className: "told" });
  told.setAttribute("role", "status");
  /** @type {HTMLElement | null} */
  let frame = null;

  async function load() {
    const options = Object.fromEntries(new URLSearchParams(element.dataset.options ?? ""));
    const window = { from: page.range?.from, to: page.range?.to };
    const [drawn, figure] = await Promise.all([
      page.ask("figures", { names: "layer_map", html: "yes", ...window, ...options }),
      page.ask("figures/layer_map", { ...window, ...options }),
    ]);
    const first = drawn.figures.layer_map;
    of = figure.missing === undefined ? figure : null;
    // Drawn by our own server, which escapes what comes from a job.
    if (first.html !== undefined) element.innerHTML = first.html;
    else element.replaceChildren(note(first.missing));
    if (of) live();
  }

  /** Let the picture that the server drew tell its cells. */
  function live() {
    frame = /** @type {HTMLElement | null} */ (element.querySelector("figure"));
    const picture = element.querySelector("image");
    if (!frame || !picture) return;
    frame.tabIndex = 0;
    frame.setAttribute("role", "application");
    frame.setAttribute("aria-label", `${of?.title}: arrows walk over layers and steps, Enter shows the layer's history`);
    frame.append(told);
    frame.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      if (!of || x < 0 || y < 0 || x >= 1 || y >= 1) return;
      go(Math.floor(y * of.series.length), Math.floor(x * of.x.length));
    });
    picture.addEventListener("click", open);
    frame.addEventListener("keydown", walk);
    go(Math.min(at.row, (of?.series.length ?? 1) - 1), Math.min(at.column, (of?.x.length ?? 1) - 1));
  }

  /** @param {number} row @param {number} column */
  function go(row, column) {
    if (!of || row < 0 || column < 0 || row >= of.series.length || column >= of.x.length) return;
    at = { row, column };
    const series = of.series[row];
    const value = series.values[column];
    const said = value === null ? "nothing" : `${number(value)} ${of.y_axis.unit}`.trim();
    told.textContent = `${series.name}, step ${number(Math.round(Number(of.x[column])))}: ${said}`;
    mark();
  }

  /** Frame the layer whose value is shown. */
  function mark() {
    const picture = element.querySelector("image");
    if (!of || !picture) return;
    const svg = /** @type {SVGElement} */ (picture.ownerSVGElement);
    let box = svg.querySelector(".marked");
    if (!box) {
      box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      box.setAttribute("class", "marked");
      svg.append(box);
    }
    const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(picture.getAttribute(name)));
    const place = {
      x: x + (width * at.column) / of.x.length,
      y: y + (height * at.row) / of.series.length,
      width: Math.max(width / of.x.length, 2),
      height: Math.max(height / of.series.length, 2),
    };
    for (const [name, value] of Object.entries(place)) box.setAttribute(name, value.toFixed(1));
  }

  function open() {
    if (!of) return;
    const address = new URL(location.href);
    address.searchParams.set("tensor", of.series[at.row].name);
    location.assign(address);
  }

  /** @param {KeyboardEvent} event */
  function walk(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = WALKS[event.key];
    if (step) go(at.row + step[0], at.column + step[1]);
    else if (event.key === "Enter") open();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  await load();
  const off = page.on("range", () => void load().catch(() => {}));
  return { update: () => void load().catch(() => element.classList.add("failed")), destroy: off };
}
