// Converts a figure to the columns and series options of uPlot.

import { ink } from "./ink.js";
import { smooth, weight } from "./smoothing.js";
import uPlot from "./vendor/uPlot.esm.js";

/** @typedef {import("./figures.js").Figure} Figure */
/** @typedef {import("./figures.js").Values} Values */
/** @typedef {import("./vendor/uPlot.esm.js").Series & {of?: number}} Drawn `of` is the place of its series */
/** @typedef {{series: Drawn[], bands: import("./vendor/uPlot.esm.js").Band[], data: (number[] | Values)[]}} Layout */

const MOST_BANDS = 8; // more of them hide each other

/**
 * @param {Figure} of
 * @param {HTMLElement} element where it will be: colors depend on it
 * @param {number[]} x
 * @returns {Layout}
 */
export function build(of, element, x) {
  const colors = of.series.map((one) => ink(element, one.color));
  if (of.kind === "stacked") return stacked(of, colors, x);
  return of.kind === "bars" ? bars(of, colors, x) : lines(of, colors, x);
}

/** Whether it has so few positions that each gets a bar of its own. @param {Figure} of */
export const few = (of) => of.kind === "stacked" && of.x.length <= 60 && of.x_axis.label === "number of the step";

/** @param {Figure} of @param {string[]} colors @param {number[]} x @returns {Layout} */
function lines(of, colors, x) {
  /** @type {Layout} */
  const made = { series: [{}], bands: [], data: [x] };
  const share = weight(of);
  for (const [at, one] of of.series.entries()) {
    const line = { label: one.name, stroke: colors[at], width: 1.6, points: { size: 4, filter: isolated }, spanGaps: one.joined ?? false, of: at, ...(one.dashed && { dash: [6, 4] }) };
    if (share && !one.low) {
      made.data.push(one.values);
      made.series.push({ ...line, stroke: faint(colors[at], 0.3), width: 1, points: { show: false } });
    }
    made.data.push(share ? smooth(one.values, share) : one.values);
    made.series.push(line);
    if (!one.low || !one.high || of.series.length > MOST_BANDS) continue;
    const edge = { stroke: faint(colors[at], 0.8), width: 1, points: { show: false }, of: at };
    made.series.push({ ...edge }, { ...edge });
    made.data.push(one.high, one.low);
    made.bands.push({ series: [made.data.length - 2, made.data.length - 1], fill: faint(colors[at], 0.18) });
  }
  return made;
}

/**
 * The points that are drawn: where there is room all, else those without a neighbor, which no line shows.
 * @param {uPlot} chart @param {number} at @param {boolean} all
 */
function isolated(chart, at, all) {
  if (all) return null;
  const values = chart.data[at];
  const found = [];
  for (let place = 0; place < values.length; place++) {
    if (values[place] != null && values[place - 1] == null && values[place + 1] == null) found.push(place);
  }
  return found;
}

/** Areas on one another: the highest is drawn first, whole, and what lies below it over it. */
/** @param {Figure} of @param {string[]} colors @param {number[]} x @returns {Layout} */
function stacked(of, colors, x) {
  const paths = few(of) ? uPlot.paths.bars?.({ size: [0.8, 60] }) : undefined;
  const known = x.map((_, i) => of.series.some((one) => one.values[i] !== null));
  /** @type {number[]} */
  let below = x.map(() => 0);
  const tops = of.series.map((one) => (below = below.map((low, i) => low + (one.values[i] ?? 0))));
  /** @type {Layout} */
  const made = { series: [{}], bands: [], data: [x] };
  for (let at = tops.length - 1; at >= 0; at--) {
    made.data.push(tops[at].map((top, i) => (known[i] ? top : null)));
    made.series.push({ label: of.series[at].name, stroke: colors[at], fill: colors[at], width: 0, ...(paths && { paths }), points: { show: false }, of: at });
  }
  return made;
}

/** A histogram: a bar from each edge to the next. */
/** @param {Figure} of @param {string[]} colors @param {number[]} x @returns {Layout} */
function bars(of, colors, x) {
  const paths = uPlot.paths.bars?.({ align: 1, size: [1, Infinity, 1] });
  const one = of.series[0];
  return {
    series: [{}, { label: one.name, stroke: colors[0], fill: colors[0], width: 0, paths, points: { show: false }, of: 0 }],
    bands: [],
    data: [x, [...one.values, null].slice(0, x.length)],
  };
}

/** @param {string} color as in `rgb(1, 2, 3)` @param {number} share */
const faint = (color, share) => color.replace("rgb(", "rgba(").replace(")", `, ${share})`);
