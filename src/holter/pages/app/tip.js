// What a chart says at the cursor: the position, and the value of each series, in a box that follows the cursor.

import uPlot from "./vendor/uPlot.esm.js";
import { moment, number } from "./words.js";

/** @typedef {import("./figures.js").Figure} Figure */

const MOST = 12; // series; of more, the largest
const LONGEST = 48; // letters of a name

export class Tip {
  /**
   * @param {HTMLElement} place the box of the plot
   * @param {Figure} of
   * @param {import("./page.js").AxisName | null} shown
   * @param {Set<string>} hidden names of the series that are not shown
   * @param {import("./marks.js").Marks} marks
   */
  constructor(place, of, shown, hidden, marks) {
    this.marks = marks;
    this.place = place;
    this.of = of;
    this.shown = shown;
    this.hidden = hidden;
    this.element = Object.assign(document.createElement("div"), { className: "chart-tip", hidden: true });
    place.append(this.element);
  }

  /** @param {uPlot} chart */
  show(chart) {
    const { idx, left = -1 } = chart.cursor;
    const x = chart.data[0];
    this.element.hidden = idx == null || left < 0 || idx >= x.length;
    if (this.element.hidden) return;
    const at = /** @type {number} */ (idx);
    const { of, hidden } = this;
    const unit = of.y_axis.unit ? ` ${of.y_axis.unit}` : "";
    const seen = of.series.filter((one) => !hidden.has(one.name));
    const most = seen.length > MOST ? [...seen].sort((a, b) => (b.values[at] ?? -Infinity) - (a.values[at] ?? -Infinity)).slice(0, MOST) : seen;
    const several = of.series.length > 1;
    const rows = most.map((one) => row(one, at, unit, several));
    const head = Object.assign(document.createElement("div"), { className: "at", textContent: where(x[at], x, of, this.shown) });
    const more = seen.length - most.length;
    const rest = more > 0 ? [Object.assign(document.createElement("div"), { className: "at", textContent: `and ${more} smaller` })] : [];
    const marked = this.marks.at(chart, this.shown).map((text) => Object.assign(document.createElement("div"), { className: "at", textContent: text }));
    this.element.replaceChildren(head, ...marked, ...rows, ...rest);
    const { left: begin, width } = chart.over.getBoundingClientRect();
    const inset = begin - this.place.getBoundingClientRect().left;
    const own = this.element.offsetWidth;
    // Beside the cursor, where there is room; never over the edge.
    const beside = left + 12 + own <= width ? left + 12 : left - 12 - own;
    this.element.style.left = `${Math.max(0, inset + beside)}px`;
  }
}

/** @param {import("./figures.js").Series} one @param {number} at @param {string} unit @param {boolean} several */
function row(one, at, unit, several) {
  const element = document.createElement("div");
  element.append(Object.assign(document.createElement("i"), { className: one.dashed ? `${one.color} dashed` : one.color }));
  if (several) element.append(Object.assign(document.createElement("span"), { textContent: short(one.name) }));
  element.append(Object.assign(document.createElement("b"), { textContent: value(one, at, unit) }));
  return element;
}

/** A value with its band, if the band is wider than what the digits tell. @param {import("./figures.js").Series} one @param {number} at @param {string} unit */
function value({ values, low, high }, at, unit) {
  const here = values[at];
  if (here === null || here === undefined) return "no value";
  const [least, most] = [low?.[at] ?? here, high?.[at] ?? here].map((end) => number(end));
  const said = number(here);
  return said === least && said === most ? `${said}${unit}` : `${said} (${least} – ${most})${unit}`;
}

/** @param {string} text */
const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST / 2)}…${text.slice(-LONGEST / 2)}` : text);

/** @param {number} x @param {ArrayLike<number>} all @param {Figure} of @param {import("./page.js").AxisName | null} shown */
function where(x, all, of, shown) {
  if (shown === "time") return moment(x, all[all.length - 1] - all[0]);
  return shown === "step" ? `step ${Math.round(x).toLocaleString("en-US")}` : `${number(x)}${of.x_axis.unit ? ` ${of.x_axis.unit}` : ""}`;
}
