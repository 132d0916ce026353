// Blocks of a timeline as pixels: a row of colors per line of a lane, without drawing shapes.

import { color, mixed } from "../canvas/colors.js";

/**
 * @typedef {import("../canvas/colors.js").Theme} Theme
 * @typedef {import("../canvas/colors.js").Color} Color
 * @typedef {import("./tiles.js").Tile} Tile
 *
 * A name that there is room for. @typedef {{text: string, x: number, y: number, width: number, ink: string}} Label
 */

const SHADES = 4;
const MOST_LABELS = 1500;
const LETTER = 6.3;

/** The colors of names, in shades that say how full a block of several events is. */
export class Inks {
  /** @param {Theme} theme */
  constructor(theme) {
    this.theme = theme;
    /** @type {Map<string, {ink: Color, shades: Uint32Array, dim: Uint32Array}>} */
    this.known = new Map();
  }

  /** @param {string} name @param {string} kind */
  of(name, kind) {
    const key = kind === "phases" ? `phases ${name}` : name;
    let found = this.known.get(key);
    if (!found) {
      const ink = this.theme.event(name, kind);
      const ground = this.theme.background.rgb;
      const shade = (/** @type {number} */ share) => color(mixed(ground, ink.rgb, share)).packed;
      const shares = Array.from({ length: SHADES }, (_, at) => 0.4 + (0.6 * at) / (SHADES - 1));
      found = { ink, shades: Uint32Array.from(shares, shade), dim: Uint32Array.from(shares, (share) => shade(share * 0.22)) };
      if (this.known.size > 20_000) this.known.clear();
      this.known.set(key, found);
    }
    return found;
  }
}

/** The picture that blocks are put into, in pixels of the screen. */
export class Raster {
  constructor() {
    this.image = new ImageData(1, 1);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.line = new Uint32Array(1);
    /** @type {Label[]} */
    this.labels = [];
  }

  /** @param {number} width @param {number} height @param {number} ground */
  begin(width, height, ground) {
    if (this.image.width !== width || this.image.height !== height) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.line = new Uint32Array(width);
    }
    this.pixels.fill(ground);
    this.labels = [];
  }

  get width() {
    return this.image.width;
  }

  /** Copy the line of colors to rows. @param {number} top @param {number} bottom */
  spread(top, bottom) {
    const { width, height } = this.image;
    for (let y = Math.max(0, top); y < Math.min(bottom, height); y++) this.pixels.set(this.line, y * width);
  }

  /**
   * Put one line of a tile into the line of colors.
   * @param {Tile} tile @param {number} line @param {string} kind of its lane
   * @param {{from: number, to: number, low: number, high: number}} range of time seen, and part of it to fill
   * @param {{inks: Inks, ratio: number, y: number, chosen: ReadonlySet<number> | null}} how
   */
  put(tile, line, kind, range, how) {
    const [first, last] = [tile.lines[line], tile.lines[line + 1]];
    if (first === undefined || last === undefined || first === last) return;
    const { time, duration, busy, count, name, names } = tile;
    const scale = this.width / (range.to - range.from);
    const [left, right] = [Math.max(0, Math.floor((range.low - range.from) * scale)), Math.min(this.width, Math.ceil((range.high - range.from) * scale))];
    let [low, high] = [first, last];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (time[middle] < range.low) low = middle + 1;
      else high = middle;
    }
    const { inks, ratio, y, chosen } = how;
    let code = -1;
    let shades = /** @type {Uint32Array} */ (new Uint32Array(SHADES));
    let ink = inks.theme.other;
    for (let row = Math.max(first, low - 2); row < last && time[row] < range.high; row++) {
      const start = (time[row] - range.from) * scale;
      const end = start + duration[row] * scale;
      if (end < left) continue;
      if (name[row] !== code) {
        code = name[row];
        const found = inks.of(names.get(code) ?? "", kind);
        shades = chosen && !chosen.has(code) ? found.dim : found.shades;
        ink = found.ink;
      }
      const full = count[row] === 1 || duration[row] === 0 ? SHADES - 1 : Math.min(SHADES - 1, Math.floor((busy[row] / duration[row]) * SHADES));
      const from = Math.max(left, Math.floor(start));
      let to = Math.min(right, Math.max(from + 1, Math.floor(end)));
      if (end - start > 3 * ratio && end < right + 1) to -= 1; // a hair's breadth between neighbors
      this.line.fill(shades[full], from, to);
      const room = (Math.min(this.width, end) - Math.max(0, start)) / ratio;
      // Of an event that reaches over several pages, the first that is seen names it.
      if (room > 28 && (start >= left || left === 0) && this.labels.length < MOST_LABELS) {
        const text = count[row] === 1 ? (names.get(code) ?? "") : `${count[row].toLocaleString("en")} × ${names.get(code) ?? ""}`;
        const letters = Math.floor((room - 6) / LETTER);
        const dimmed = (chosen && !chosen.has(code)) || full < SHADES - 1;
        this.labels.push({
          text: text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 1))}…`,
          x: from / ratio + 3,
          y,
          width: room,
          ink: dimmed ? inks.theme.text.css : ink.text,
        });
      }
    }
  }
}

/**
 * How busy streams were, pixel by pixel, 0 to 1: what runs on several at once counts together, up to 1. A block of
 * several events counts as evenly filled.
 * @param {{from: number, to: number, tile: Tile | null}[][]} held for each stream
 * @param {number} from @param {number} to @param {number} pixels
 * @returns {Float32Array} negative where nothing is held
 */
export function busy(held, from, to, pixels) {
  const [share, steps] = [new Float64Array(pixels), new Float64Array(pixels + 1)];
  const known = new Uint8Array(pixels);
  const scale = pixels / (to - from);
  for (const piece of held.flat()) {
    const { tile } = piece;
    const [low, high] = [Math.max(0, (piece.from - from) * scale), Math.min(pixels, (piece.to - from) * scale)];
    if (!tile || high <= low) continue;
    known.fill(1, Math.floor(low), Math.ceil(high));
    for (let row = 0, end = tile.lines[1] ?? 0; row < end; row++) {
      const begin = Math.max(low, (tile.time[row] - from) * scale);
      const until = Math.min(high, (tile.time[row] + tile.duration[row] - from) * scale);
      if (until <= begin) continue;
      const pace = tile.busy[row] / tile.duration[row];
      const [first, last] = [Math.floor(begin), Math.floor(until)];
      if (first === last) share[first] += (until - begin) * pace;
      else {
        share[first] += (first + 1 - begin) * pace;
        steps[first + 1] += pace;
        steps[last] -= pace;
        if (last < pixels) share[last] += (until - last) * pace;
      }
    }
  }
  let running = 0;
  return Float32Array.from(share, (part, at) => {
    running += steps[at];
    return known[at] ? Math.min(1, part + running) : -1;
  });
}
