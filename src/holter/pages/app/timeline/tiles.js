// The cache of a timeline's tiles: 1024 · 2ᵏ ns per lane and tile, loaded or requested.

export const PAGE_PX = 1024;
const MOST_BYTES = 160e6;
const AT_ONCE = 3;
const MOST_LANES = 128;

/**
 * What is seen of one lane on one page. Times are ns since the job's start.
 * @typedef {object} Tile
 * @property {number} level -1: every event is there by itself
 * @property {Float64Array} time
 * @property {Float64Array} duration
 * @property {Float64Array} busy
 * @property {Uint32Array} count
 * @property {Uint32Array} name code of the (longest) event's name
 * @property {Uint32Array} lines where each line's rows begin, and where the last one's end
 * @property {Map<number, string>} names
 *
 * @typedef {{k: number, at: number, from: number, to: number, bytes: number, lanes: Map<number, Tile>, used: number}} Page
 */

/** @param {ArrayBuffer} bytes as `views/timeline/packing.py` writes them @returns {{version: string, lanes: Map<number, Tile>}} */
export function decoded(bytes) {
  const length = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  /** @type {Map<number, string>} */
  const names = new Map(Object.entries(head.names).map(([code, name]) => [Number(code), String(name)]));
  const rows = head.lanes.reduce((/** @type {number} */ sum, /** @type {number[]} */ lane) => sum + lane[2], 0);
  let at = 4 + length;
  const floats = [0, 1, 2].map(() => new Float64Array(bytes, (at += rows * 8) - rows * 8, rows));
  const whole = [0, 1].map(() => new Uint32Array(bytes, (at += rows * 4) - rows * 4, rows));
  const depth = new Uint16Array(bytes, at, rows);
  /** @type {Map<number, Tile>} */
  const lanes = new Map();
  let first = 0;
  for (const [lane, level, count] of head.lanes) {
    const last = first + count;
    const lines = new Uint32Array((count ? depth[last - 1] + 1 : 0) + 1);
    for (let row = first; row < last; row++) lines[depth[row] + 1]++;
    for (let line = 1; line < lines.length; line++) lines[line] += lines[line - 1];
    const [time, duration, busy] = floats.map((column) => column.subarray(first, last));
    const [number, name] = whole.map((column) => column.subarray(first, last));
    lanes.set(lane, { level, time, duration, busy, count: number, name, lines, names });
    first = last;
  }
  return { version: head.version, lanes };
}

/** The page grid whose pixels are nearest below those of the screen. @param {number} nsPerPixel @returns {number} */
export const gridOf = (nsPerPixel) => Math.max(0, Math.floor(Math.log2(Math.max(nsPerPixel, 1)) + 1e-9));

const spanOf = (/** @type {number} */ k) => PAGE_PX * 2 ** k;

/** @typedef {(query: {from: number, to: number, pixels: number, lanes: number[]}, signal: AbortSignal) => Promise<ArrayBuffer>} Ask */

export class Tiles {
  /**
   * @param {Ask} ask
   * @param {() => void} arrived
   * @param {(version: string) => void} changed the job has grown: codes and numbers mean something else now
   */
  constructor(ask, arrived, changed) {
    this.ask = ask;
    this.arrived = arrived;
    this.changed = changed;
    this.version = "";
    this.bytes = 0;
    this.clock = 0;
    /** @type {Map<string, Page>} */
    this.pages = new Map();
    /** @type {Map<string, {stop: AbortController, lanes: Set<number>}>} */
    this.asking = new Map();
    /** @type {{k: number, from: number, to: number, lanes: number[]} | null} */
    this.wanted = null;
    /** What went wrong last, to be said. */
    this.wrong = "";
  }

  get busy() {
    return this.asking.size > 0;
  }

  clear() {
    this.stop();
    this.pages.clear();
    this.bytes = 0;
  }

  stop() {
    for (const { stop } of this.asking.values()) stop.abort();
    this.asking.clear();
    this.wanted = null;
  }

  /** Forget what did not come, so that it is asked for again. */
  retry() {
    this.wrong = "";
    if (this.wanted) this.next();
  }

  /**
   * Set the visible range: missing tiles are requested, and requests for hidden tiles are dropped.
   * @param {number} from @param {number} to @param {number} pixels @param {number[]} lanes
   */
  want(from, to, pixels, lanes) {
    const k = gridOf((to - from) / pixels);
    this.wanted = { k, from, to, lanes };
    for (const [key, { stop }] of this.asking) {
      const [grid, at] = key.split(":").map(Number);
      if (grid !== k || (at + 1) * spanOf(k) <= from || at * spanOf(k) >= to) {
        stop.abort();
        this.asking.delete(key);
      }
    }
    this.next();
  }

  next() {
    if (!this.wanted || this.wrong) return;
    const { k, from, to, lanes } = this.wanted;
    const span = spanOf(k);
    // From the middle outwards: there the eye is.
    const [first, last, middle] = [Math.floor(from / span), Math.ceil(to / span), (from + to) / 2 / span - 0.5];
    const places = Array.from({ length: Math.min(last - first, 64) }, (_, n) => first + n);
    places.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
    for (const at of places) {
      if (this.asking.size >= AT_ONCE) return;
      const key = `${k}:${at}`;
      if (this.asking.has(key)) continue;
      const missing = lanes.filter((lane) => !this.exact(k, at, lane)).slice(0, MOST_LANES);
      if (missing.length) void this.fetch(k, at, key, missing);
    }
  }

  /** @param {number} k @param {number} at @param {string} key @param {number[]} lanes */
  async fetch(k, at, key, lanes) {
    const stop = new AbortController();
    this.asking.set(key, { stop, lanes: new Set(lanes) });
    const [from, to] = [at * spanOf(k), (at + 1) * spanOf(k)];
    try {
      const bytes = await this.ask({ from, to, pixels: PAGE_PX, lanes }, stop.signal);
      const came = decoded(bytes);
      if (stop.signal.aborted) return;
      this.asking.delete(key);
      if (came.version !== this.version) return this.changed(came.version);
      this.keep(key, k, at, from, to, bytes.byteLength, came.lanes);
    } catch (error) {
      if (stop.signal.aborted) return;
      this.asking.delete(key);
      this.wrong = error instanceof Error ? error.message : String(error);
    }
    this.arrived();
    this.next();
  }

  /**
   * @param {string} key @param {number} k @param {number} at @param {number} from @param {number} to
   * @param {number} bytes @param {Map<number, Tile>} lanes
   */
  keep(key, k, at, from, to, bytes, lanes) {
    const page = this.pages.get(key) ?? { k, at, from, to, bytes: 0, lanes: new Map(), used: 0 };
    for (const [lane, tile] of lanes) page.lanes.set(lane, tile);
    page.bytes += bytes;
    page.used = ++this.clock;
    this.pages.set(key, page);
    this.bytes += bytes;
    if (this.bytes <= MOST_BYTES) return;
    for (const [old, { bytes: size }] of [...this.pages].sort(([, a], [, b]) => a.used - b.used)) {
      if (this.bytes <= MOST_BYTES * 0.8 || old === key) break;
      this.pages.delete(old);
      this.bytes -= size;
    }
  }

  /** A tile that shows a page as exactly as can be: its own, or one above it that has every event. */
  exact(/** @type {number} */ k, /** @type {number} */ at, /** @type {number} */ lane) {
    for (let up = 0; up < 40; up++) {
      const page = this.pages.get(`${k + up}:${Math.floor(at / 2 ** up)}`);
      const tile = page?.lanes.get(lane);
      if (page && tile && (up === 0 || tile.level < 0)) {
        page.used = ++this.clock;
        return tile;
      }
    }
    return null;
  }

  /**
   * What is held for a lane, from left to right without overlap: exact where it came already, else coarser.
   * @param {number} from @param {number} to @param {number} pixels @param {number} lane
   * @returns {{from: number, to: number, tile: Tile | null}[]}
   */
  held(from, to, pixels, lane) {
    const k = gridOf((to - from) / pixels);
    const span = spanOf(k);
    /** @type {{from: number, to: number, tile: Tile | null}[]} */
    const found = [];
    for (let at = Math.floor(from / span); at * span < to; at++) {
      let tile = this.exact(k, at, lane);
      for (let up = 1; !tile && up < 40; up++) tile = this.pages.get(`${k + up}:${Math.floor(at / 2 ** up)}`)?.lanes.get(lane) ?? null;
      const last = found[found.length - 1];
      if (last && last.tile === tile) last.to = (at + 1) * span;
      else if (tile) found.push({ from: at * span, to: (at + 1) * span, tile });
      else found.push(...this.below(k, at, lane));
    }
    return found;
  }

  /** After zooming out: pieces of what was seen before. @param {number} k @param {number} at @param {number} lane */
  below(k, at, lane) {
    for (let down = 1; down <= 3; down++) {
      const span = spanOf(k - down);
      const pieces = Array.from({ length: 2 ** down }, (_, n) => at * 2 ** down + n).map((place) => ({
        from: place * span,
        to: (place + 1) * span,
        tile: this.pages.get(`${k - down}:${place}`)?.lanes.get(lane) ?? null,
      }));
      if (pieces.some(({ tile }) => tile)) return pieces;
    }
    return [{ from: at * spanOf(k), to: (at + 1) * spanOf(k), tile: null }];
  }
}
