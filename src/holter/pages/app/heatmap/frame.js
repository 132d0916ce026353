// The controls around a heat map: its scale, the choice of the shown value, and the numbers as a table.

import { HEAT_CSS } from "../canvas/colors.js";
import { make } from "../canvas/elements.js";
import { reading } from "../canvas/time.js";

/**
 * @typedef {import("./cells.js").Cells} Cells
 * @typedef {import("./cells.js").What} What
 */

/** @param {(what: What) => void} choose @param {() => void} reset @returns {HTMLElement} */
export function legend(choose, reset) {
  const choice = make(
    "select",
    { onchange: (/** @type {Event} */ event) => choose(/** @type {What} */ (/** @type {HTMLSelectElement} */ (event.target).value)) },
    make("option", { value: "mean" }, "mean"),
    make("option", { value: "high" }, "greatest"),
    make("option", { value: "low" }, "least"),
  );
  const scale = make("i.scale", { "aria-hidden": "true" });
  scale.style.background = HEAT_CSS;
  return make(
    "div.heat-legend",
    {},
    make("label", {}, "show the ", choice, " of each cell"),
    make("span", {}, "0 % ", scale, " 100 %"),
    make("span", {}, make("i.scale.none", { "aria-hidden": "true" }), " no reading"),
    make("button", { type: "button", onclick: reset }, "Whole job"),
  );
}

const HEADS = ["node", "device", "mean", "least", "greatest", "100 % is"];

/** The numbers behind the picture; they are written while the table is open. */
export class Listing {
  constructor() {
    this.rows = make("tbody");
    const heads = make("tr", {}, ...HEADS.map((head) => make("th", { scope: "col" }, head)));
    const table = make("table", {}, make("thead", {}, heads), this.rows);
    this.element = /** @type {HTMLDetailsElement} */ (
      make("details", { ontoggle: () => this.write() }, make("summary", {}, "Show as table"), make("div.scroll", { tabindex: "0", role: "region", "aria-label": "readings of each device" }, table))
    );
    /** @type {() => {cells: Cells, from: number, to: number} | null} */
    this.source = () => null;
  }

  write() {
    const source = this.element.open ? this.source() : null;
    if (!source) return;
    const { cells, from, to } = source;
    const rows = cells.rows.map((row, at) => {
      const found = cells.summary(at, from, to);
      const told = found ? [found.mean, found.low, found.high].map((value) => reading(value, row.unit)) : Array(3).fill("no reading");
      return make("tr", {}, ...[row.node, row.name, ...told, reading(row.full, row.unit)].map((text) => make("td", {}, text)));
    });
    this.rows.replaceChildren(...rows);
  }
}
