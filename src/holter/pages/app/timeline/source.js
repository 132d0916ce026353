// The requests of a timeline. Times are ns since the job's start.

import { ask, bytes } from "../canvas/asking.js";

/**
 * @typedef {import("../page.js").Page} Page
 * @typedef {import("./rows.js").Entry} Entry
 * @typedef {import("./picking.js").Picked} Picked
 * @typedef {import("./painter.js").Arrow} Arrow
 *
 * @typedef {object} Head
 * @property {string} version changes when the job has grown; numbers and codes belong to it
 * @property {number} again_s in how many seconds it is looked whether the job has grown since
 * @property {number} events
 * @property {number} from_ns
 * @property {number} to_ns
 * @property {Entry[]} tree
 */

/** Numbers as the server takes many of them: `0-3,7`. @param {number[]} numbers @returns {string} */
export function ranges(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  /** @type {[number, number][]} */
  const found = [];
  for (const number of sorted) {
    const last = found[found.length - 1];
    if (last && number <= last[1] + 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

export class Source {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.version = "";
  }

  /** @returns {Promise<Head>} */
  async head() {
    const head = await ask(this.page, "timeline", {});
    this.version = head.version;
    return head;
  }

  /** @param {{from: number, to: number, pixels: number, lanes: number[]}} query @param {AbortSignal} signal */
  tiles({ from, to, pixels, lanes }, signal) {
    return bytes(this.page, "timeline/tiles", { from_ns: from, to_ns: to, pixels, lanes: ranges(lanes) }, signal);
  }

  /** @param {{from: number, to: number, pixels: number, series: number[]}} query @param {AbortSignal} signal */
  curves({ from, to, pixels, series }, signal) {
    return ask(this.page, "timeline/curves", { from_ns: Math.floor(from), to_ns: Math.ceil(to), pixels, series: ranges(series) }, signal);
  }

  /** @param {number} from @param {number} to @returns {Promise<{steps: {step: number, time: number, duration: number}[]}>} */
  steps(from, to) {
    return ask(this.page, "timeline/steps", { from_ns: Math.floor(from), to_ns: Math.ceil(to), most: 300 });
  }

  /** @param {Picked} event @returns {Promise<import("./panel.js").Detail>} */
  event({ lane, time, duration, code }) {
    return ask(this.page, "timeline/event", { version: this.version, lane, time_ns: time, duration_ns: duration, name: code });
  }

  /**
   * The events of some lanes in a range, summed by name.
   * @param {number} from @param {number} to @param {number[]} lanes
   * @returns {Promise<{entries: import("./panel.js").AreaEntry[], entries_in_all: number}>}
   */
  area(from, to, lanes) {
    const query = { version: this.version, from_ns: Math.floor(from), to_ns: Math.ceil(to), lanes: ranges(lanes), limit: 100 };
    return ask(this.page, "timeline/area", query);
  }

  /** @param {string} text @param {AbortSignal} signal @returns {Promise<{found: import("./finder.js").Found[]}>} */
  search(text, signal) {
    return ask(this.page, "timeline/search", { text, limit: 100, rank: this.page.rank }, signal);
  }

  /** @param {number[]} codes @param {number} after @param {boolean} backward @returns {Promise<{event: Picked | null}>} */
  following(codes, after, backward) {
    const query = { version: this.version, names: ranges(codes), after_ns: Math.round(after), backward: backward ? 1 : 0, rank: this.page.rank };
    return ask(this.page, "timeline/following", query);
  }
}
