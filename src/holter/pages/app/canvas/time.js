// Formats times and sizes; all times are ns.

import { clock as since } from "../words.js";

const UNITS = /** @type {const} */ ([
  [1, "ns"],
  [1e3, "µs"],
  [1e6, "ms"],
  [1e9, "s"],
]);
const LONG = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** How long something took: `1.25 ms`, `2:05 min`. @param {number} ns @param {number} [digits] significant ones @returns {string} */
export function lasting(ns, digits = 3) {
  const size = Math.abs(ns);
  if (size >= 60e9) return clock(ns, 0) + (size >= 3600e9 ? " h" : " min");
  const [unit, name] = [...UNITS].reverse().find(([least]) => size >= least) ?? UNITS[0];
  return `${Number((ns / unit).toPrecision(digits))} ${name}`;
}

/** A moment since the start: `1:02:03.5`, `12.25 s`. @param {number} ns @param {number} digits behind the second @returns {string} */
export function clock(ns, digits) {
  const sign = ns < 0 ? "-" : "";
  const whole = Math.abs(ns);
  if (digits && whole < 60e9) return `${sign}${(whole / 1e9).toFixed(digits)} s`;
  const seconds = Math.floor(whole / 1e9 + 0.5 * 10 ** -digits + 1e-12);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  const rest = digits ? Math.max(0, whole / 1e9 - hours * 3600 - minutes * 60) : seconds % 60;
  const last = rest.toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return `${sign}${hours ? `${hours}:${String(minutes).padStart(2, "0")}` : minutes}:${last}`;
}

/** A moment as exactly as a window of this width needs it. @param {number} ns @param {number} span @returns {string} */
export function moment(ns, span) {
  return clock(ns, Math.min(9, Math.max(0, Math.ceil(-Math.log10(span / 1e9) + 2.7))));
}

/**
 * Where an axis is labeled. Below a millisecond labels count from the moment that `base` names.
 * @param {number} from @param {number} to @param {number} most
 * @returns {{ticks: {at: number, label: string}[], base: string}}
 */
export function ticks(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  let step = LONG.map((s) => s * 1e9).find((s) => s >= rough) ?? Math.ceil(rough / 86400e9) * 86400e9;
  if (rough < 1e9) {
    const unit = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    step = unit * (/** @type {number} */ ([1, 2, 5, 10].find((digit) => unit * digit >= rough)));
  }
  const base = step < 1e6 ? Math.floor(from / 1e6) * 1e6 : 0;
  const digits = Math.max(0, Math.ceil(-Math.log10(step / 1e9) - 1e-9));
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to && found.length < 200; at += step) {
    found.push({ at, label: base ? `+${lasting(at - base, 6)}` : labeled(at, step, digits) });
  }
  return { ticks: found, base: base ? clock(base, 3) : "" };
}

/** A moment under an axis, as on the charts; what needs seconds behind an hour has them. @param {number} at @param {number} step @param {number} digits */
function labeled(at, step, digits) {
  const fine = digits > 0 || (at >= 3600e9 && step < 60e9) || (at >= 48 * 3600e9 && step < 3600e9);
  return fine ? clock(at, digits) : since(at / 1e9);
}

/** A reading with its unit: `45.3 %`, `1.2 GB/s`. @param {number} value @param {string} unit @returns {string} */
export function reading(value, unit) {
  if (Number.isNaN(value)) return "no reading";
  if (unit.startsWith("bytes")) {
    const power = Math.min(5, Math.max(0, Math.floor(Math.log10(Math.max(Math.abs(value), 1)) / 3)));
    return `${Number((value / 1000 ** power).toPrecision(3))} ${["", "k", "M", "G", "T", "P"][power]}B${unit.slice(5)}`;
  }
  return `${Number(value.toPrecision(3)).toLocaleString("en")} ${unit}`.trim();
}
