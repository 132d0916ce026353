// The values of a heat map as the server sends them, and their image with one pixel per cell.

import { HEAT } from "../canvas/colors.js";

/**
 * @typedef {{node: string, name: string, metric: string, unit: string, full: number}} Row
 * @typedef {"mean" | "low" | "high"} What
 */

/** A range of time of all devices. */
export class Cells {
  /** @param {ArrayBuffer} bytes a head of JSON behind its length, then mean, least and greatest of each cell */
  constructor(bytes) {
    const length = new DataView(bytes).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
    /** @type {Row[]} */
    this.rows = head.rows;
    /** @type {number} */
    this.columns = head.columns;
    /** Begin of the first column, and length of each, ns since the job's start. */
    this.from = head.from * 1e9;
    this.step = head.step * 1e9;
    /** How far the job has come, ns. */
    this.end = head.end * 1e9;
    /** @type {number} */
    this.leftOut = head.left_out;
    const size = this.rows.length * this.columns;
    const values = [0, 1, 2].map((at) => new Float32Array(bytes, 4 + length + at * size * 4, size));
    this.mean = values[0];
    this.low = values[1];
    this.high = values[2];
    /** @type {{what: What, canvas: HTMLCanvasElement} | null} */
    this.drawn = null;
  }

  get to() {
    return this.from + this.columns * this.step;
  }

  /** The column at a time; -1 when it is outside. @param {number} time @returns {number} */
  column(time) {
    const at = Math.floor((time - this.from) / this.step);
    return at >= 0 && at < this.columns ? at : -1;
  }

  /** @param {What} what @returns {HTMLCanvasElement} without readings it is transparent */
  picture(what) {
    if (this.drawn?.what === what) return this.drawn.canvas;
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, this.columns);
    canvas.height = Math.max(1, this.rows.length);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const values = this[what];
    this.rows.forEach((row, place) => {
      const scale = 255 / row.full;
      for (let at = place * this.columns, end = at + this.columns; at < end; at++) {
        const value = values[at];
        if (value === value) pixels[at] = HEAT[Math.min(255, Math.max(0, Math.round(value * scale)))];
      }
    });
    context.putImageData(image, 0, 0);
    this.drawn = { what, canvas };
    return canvas;
  }

  /**
   * What a row's readings were in a range of time; null without any.
   * @param {number} row @param {number} from @param {number} to
   * @returns {{mean: number, low: number, high: number} | null}
   */
  summary(row, from, to) {
    let [sum, count, low, high] = [0, 0, Infinity, -Infinity];
    const first = Math.max(0, Math.floor((from - this.from) / this.step));
    const last = Math.min(this.columns, Math.ceil((to - this.from) / this.step));
    for (let at = row * this.columns + first; at < row * this.columns + last; at++) {
      if (this.mean[at] !== this.mean[at]) continue;
      sum += this.mean[at];
      count += 1;
      low = Math.min(low, this.low[at]);
      high = Math.max(high, this.high[at]);
    }
    return count ? { mean: sum / count, low, high } : null;
  }
}
