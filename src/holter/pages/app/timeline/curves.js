// Counters and system metrics below a timeline: extremes and means of the visible range.

import { reading } from "../canvas/time.js";

const PIXELS = 1600;
const MOST = 48;

/**
 * @typedef {object} Curve times are ns since the job's start
 * @property {number[]} time
 * @property {number[]} high
 * @property {number[]} mean
 * @property {number} most the greatest value, or 100 of what is a share
 * @property {string} label
 * @property {boolean} holds whether it has a value until the next one
 * @property {number} every usual distance between values
 *
 * @typedef {{series: number, time: number[], high: number[], mean: number[], before: number | null}} Answer
 * @typedef {(query: {from: number, to: number, pixels: number, series: number[]}, signal: AbortSignal) => Promise<{curves: Answer[]}>} Ask
 */

export class Curves {
  /** @param {Ask} ask @param {() => void} arrived */
  constructor(ask, arrived) {
    this.ask = ask;
    this.arrived = arrived;
    /** @type {Map<number, Curve>} */
    this.held = new Map();
    /** @type {Map<number, {from: number, to: number}>} */
    this.covers = new Map();
    this.asking = /** @type {AbortController | null} */ (null);
    /** Whether the server did not answer: it is asked again once it is heard of. */
    this.failed = false;
  }

  get busy() {
    return this.asking !== null;
  }

  retry() {
    this.failed = false;
  }

  clear() {
    this.asking?.abort();
    this.asking = null;
    this.held.clear();
    this.covers.clear();
  }

  /**
   * Say what is looked at; a margin on both sides comes too, so that panning does not wait.
   * @param {number} from @param {number} to @param {{number: number, unit: string, holds: boolean}[]} series
   */
  async want(from, to, series) {
    const span = to - from;
    const missing = series.filter(({ number }) => {
      const has = this.covers.get(number);
      return !has || has.from > from || has.to < to || has.to - has.from > 5 * span;
    });
    if (!missing.length || this.asking || this.failed) return;
    const stop = (this.asking = new AbortController());
    const [first, last] = [from - span / 2, to + span / 2];
    try {
      const some = missing.slice(0, MOST);
      const { curves } = await this.ask({ from: first, to: last, pixels: PIXELS, series: some.map((one) => one.number) }, stop.signal);
      if (stop.signal.aborted) return;
      for (const curve of curves) {
        const about = some.find((one) => one.number === curve.series);
        if (!about) continue;
        this.covers.set(curve.series, { from: first, to: last });
        this.held.set(curve.series, told(curve, about, first));
      }
    } catch {
      if (stop.signal.aborted) return;
      this.failed = true; // the tiles say that the server does not answer
    }
    this.asking = null;
    this.arrived();
  }
}

/** @param {Answer} curve @param {{unit: string, holds: boolean}} about @param {number} from @returns {Curve} */
function told({ time, high, mean, before }, { unit, holds }, from) {
  if (before !== null) [time, high, mean] = [[from, ...time], [before, ...high], [before, ...mean]];
  const top = high.reduce((most, value) => Math.max(most, value), 0);
  const gaps = time.slice(1).map((at, n) => at - time[n]).sort((a, b) => a - b);
  const most = unit === "%" ? 100 : top || 1;
  return { time, high, mean, most, holds, every: gaps[gaps.length >> 1] ?? 1e9, label: time.length ? `up to ${reading(top, unit)}` : "no reading" };
}
