// Adds the curves of the baseline to a chart: dashed, at the same times or steps.

import { between } from "./clock.js";
import { figure } from "./figures.js";

/** @typedef {import("./page.js").Page} Page */
/** @typedef {import("./figures.js").Figure} Figure */
/** @typedef {import("./figures.js").Series} Series */
/** @typedef {import("./figures.js").Values} Values */

/**
 * The figure with a dashed series for each of its series that the baseline has too; without a baseline, or for a
 * chart without an axis of time or steps, the figure itself.
 * @param {Page} page
 * @param {string} name
 * @param {Figure} own
 * @param {Record<string, string | number | null | undefined>} asked how the figure was asked for
 * @returns {Promise<Figure>}
 */
export async function beside(page, name, own, asked) {
  const place = baseline(page);
  if (!place || own.kind !== "lines" || own.missing !== undefined || own.html !== undefined) return own;
  // Steps of the window of this job are at other times in the baseline: all of them are asked for.
  const times = own.x_axis.unit === "s" ? { from: asked.from, to: asked.to } : { from: undefined, to: undefined };
  const options = { ...asked, ...times, node: undefined, devices: null, store: place.store };
  const other = await figure(page, name, options, place.job).catch(() => null);
  if (!other || other.kind !== "lines" || other.missing !== undefined || other.x_axis.label !== own.x_axis.label) return own;
  const scale = unit(other.y_axis.unit) / unit(own.y_axis.unit);
  if (other.y_axis.unit !== own.y_axis.unit && !(scale > 0)) return own;
  const x = /** @type {number[]} */ (own.x);
  const added = own.series.flatMap((one) => {
    const only = own.series.length === 1 && other.series.length === 1;
    const like = other.series.find((two) => two.name === one.name) ?? (only ? other.series[0] : undefined);
    if (!like) return [];
    const values = laid(x, /** @type {number[]} */ (other.x), like.values, scale);
    return values.some((value) => value !== null) ? [{ ...like, name: `${one.name}, ${place.job}`, color: one.color, values, low: null, high: null, dashed: true }] : [];
  });
  return added.length ? { ...own, series: [...own.series, ...added] } : own;
}

/** @param {Page} page */
function baseline(page) {
  if (!page.baseline || page.alone || page.compared !== null) return null;
  const cut = page.baseline.indexOf("/");
  return cut < 0 ? { store: page.store, job: page.baseline } : { store: Number(page.baseline.slice(0, cut)), job: page.baseline.slice(cut + 1) };
}

const UNITS = { "B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9 };

/** How many bytes per second a unit is; other units have no factor. @param {string} name */
const unit = (name) => UNITS[/** @type {keyof typeof UNITS} */ (name)] ?? NaN;

/**
 * The values of a curve at other positions; none beyond its ends and in its gaps.
 * @param {number[]} x @param {number[]} of @param {Values} values @param {number} scale
 * @returns {Values}
 */
export function laid(x, of, values, scale) {
  let at = 0;
  return x.map((here) => {
    if (!of.length || here < of[0] || here > of[of.length - 1]) return null;
    while (at < of.length - 2 && of[at + 1] <= here) at++;
    const [low, high] = [values[at] ?? null, values[Math.min(at + 1, of.length - 1)] ?? null];
    if (low === null || high === null) return null;
    const value = of.length < 2 ? low : between(here, of.slice(at, at + 2), [low, high]);
    return Number.isNaN(scale) ? value : value * scale;
  });
}
