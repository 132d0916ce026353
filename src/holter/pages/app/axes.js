// The axes of a figure: what is written at them, and where.

import { ink } from "./ink.js";
import { clock, numbers } from "./words.js";

/** @typedef {import("./page.js").AxisName} AxisName */
/** @typedef {import("./figures.js").Figure} Figure */

const FONT = "11px system-ui, sans-serif";

/** Where a logarithmic axis is labeled: at powers of ten, between few of them also at 2 and 5. @param {number} low @param {number} high */
function powers(low, high) {
  const digits = high / low < 5 ? [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9] : high / low < 200 ? [1, 2, 5] : [1];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const digit of digits) found.push(Number(`${digit}e${power}`));
  const inside = found.filter((at) => at >= low && at <= high);
  const every = Math.ceil(inside.length / 10);
  return inside.length ? inside.filter((_, at) => at % every === 0) : [low, high];
}

/**
 * The two axes of a figure, as uPlot takes them.
 * @param {Figure} of
 * @param {AxisName | null} shown
 * @param {HTMLElement} element
 */
export function axes(of, shown, element) {
  const [dim, line] = [ink(element, "ink-dim"), ink(element, "ink-line")];
  const both = { stroke: dim, font: FONT, labelFont: FONT, labelSize: 16, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  const timely = shown === "time";
  const label = timely ? "time since the start" : shown === "step" ? "step" : named(of.x_axis);
  return [
    { ...both, label, size: 28, grid: { show: false }, values: (/** @type {any} */ _, /** @type {number[]} */ at) => (timely ? at.map(clock) : numbers(at)), ...(timely ? { incrs: TIMES, space: 72 } : { space: roomy }) },
    { ...both, label: named(of.y_axis), size: 52, values: (/** @type {any} */ _, /** @type {number[]} */ at) => numbers(at), ...(of.kind === "bars" && { incrs: WHOLE }), ...(of.y_axis.log && LOGARITHMIC), ...(of.y_axis.linear && signed(of.y_axis.linear)) },
  ];
}

/** So many pixels that long labels do not touch. @param {any} _ @param {number} __ @param {number} low @param {number} high */
const roomy = (_, __, low, high) => {
  const few = [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => low + share * (high - low));
  const step = 10 ** Math.floor(Math.log10(Math.max(high - low, 1e-300))) / 10;
  const longest = Math.max(...numbers(few.map((at) => Math.round(at / step) * step)).map((text) => text.length));
  return Math.max(50, LETTER_PX * longest + 16);
};
const LETTER_PX = 6.5;

const LOGARITHMIC = {
  splits: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ low, /** @type {number} */ high) => powers(low, high),
  filter: (/** @type {any} */ _, /** @type {number[]} */ at) => at,
};
/** Labels of an axis that is linear up to a value and logarithmic beyond: 0 and powers of ten. @param {number} linear */
const signed = (linear) => ({
  splits: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ low, /** @type {number} */ high) => [
    ...(-low > linear ? powers(linear, -low).map((at) => -at).reverse() : []),
    0,
    ...(high > linear ? powers(linear, high) : []),
  ],
  filter: (/** @type {any} */ _, /** @type {number[]} */ at) => at,
});
/** Steps between the labels of counts. */
const WHOLE = [1, 2, 5].flatMap((one) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((power) => one * 10 ** power)).sort((a, b) => a - b);
const TIMES = [
  1e-6, 1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900,
  1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000,
  1728000, 4320000, 8640000, 17280000, 43200000, 86400000, 172800000, 432000000,
];

/** @param {import("./figures.js").Axis} axis */
const named = (axis) => axis.label + (axis.unit ? ` (${axis.unit})` : "");
