// The heat map of a job's devices over time: brush, zoom, values at the cursor, and a table.

import { bytes } from "../canvas/asking.js";
import { Theme } from "../canvas/colors.js";
import { make } from "../canvas/elements.js";
import { Extent } from "../canvas/extent.js";
import { gestures } from "../canvas/gestures.js";
import { Surface } from "../canvas/surface.js";
import { lasting, moment, reading } from "../canvas/time.js";
import { Cells } from "../heatmap/cells.js";
import { Listing, legend } from "../heatmap/frame.js";
import { Layout } from "../heatmap/layout.js";
import { paint } from "../heatmap/paint.js";

/**
 * @typedef {import("../page.js").Page} Page
 * @typedef {import("../heatmap/cells.js").What} What
 */

const SETTLED_MS = 80;
const HELP =
  "Arrows: move the cursor. Shift and arrows left or right: mark a range, Enter: make it the page's window. " +
  "Plus and minus: zoom. Escape: the whole job. Drag: mark. Wheel: zoom. Double click: the whole job.";

/** @param {HTMLElement} element @param {Page} page */
export function mount(element, page) {
  return new Heatmap(element, page);
}

class Heatmap {
  /** @param {HTMLElement} element @param {Page} page */
  constructor(element, page) {
    this.page = page;
    this.element = element;
    this.first = [...element.childNodes];
    /** @type {Cells | null} the whole job */
    this.whole = null;
    /** @type {Cells | null} what is seen, finer */
    this.fine = null;
    this.extent = new Extent(0, 1e9, 1e7);
    this.layout = new Layout([], element.clientWidth);
    this.theme = new Theme(element);
    /** @type {What} */
    this.what = "mean";
    /** @type {{from: number, to: number} | null} */
    this.brushed = null;
    /** @type {{row: number, time: number} | null} */
    this.cursor = null;
    this.asking = new AbortController();
    /** @type {(() => void)[]} */
    this.ends = [];
    this.timer = 0;
    void this.load();
  }

  async load() {
    try {
      this.whole = await this.ask(null);
    } catch (error) {
      // What the server drew stays.
      return this.element.append(make("p.note", {}, `The live heat map could not be loaded: ${said(error)}`));
    }
    if (!this.whole?.rows.length) return;
    this.build();
    this.settle();
  }

  /** @param {{from: number, to: number} | null} range ns @returns {Promise<Cells>} */
  async ask(range) {
    this.asking.abort();
    this.asking = new AbortController();
    const width = Math.max(64, Math.min(4096, Math.round((this.element.clientWidth || 1000) * (devicePixelRatio || 1))));
    const window = range ? { from: range.from / 1e9, to: range.to / 1e9 } : {};
    return new Cells(await bytes(this.page, "heatmap", { ...window, width, node: this.element.dataset.node }, this.asking.signal));
  }

  build() {
    this.box = make("div.surface-box");
    this.tip = make("div.tip", { hidden: "" });
    this.said = make("p.visually-hidden", { "aria-live": "polite" });
    this.listing = new Listing();
    this.listing.source = () => {
      const cells = this.fine ?? this.whole;
      return cells && { cells, from: this.extent.from, to: this.extent.to };
    };
    const choose = (/** @type {What} */ what) => {
      this.what = what;
      this.surface?.soon();
    };
    const more = this.whole?.leftOut ?? 0;
    const note = more ? make("p.note", {}, `${more.toLocaleString("en")} more devices are not drawn.`) : null;
    const head = legend(choose, () => this.page.setRange(null));
    this.element.replaceChildren(head, this.box, this.said, ...(note ? [note] : []), this.listing.element);
    this.surface = new Surface(this.box, (surface) => this.paint(surface));
    Object.entries({ tabindex: "0", role: "application", "aria-label": `Heat map of devices over time. ${HELP}` }).forEach(
      ([name, value]) => this.surface?.canvas.setAttribute(name, value),
    );
    this.box.append(this.tip);
    this.arrange();
    this.ends.push(
      gestures(this.surface.canvas, {
        zoom: (factor, x) => this.zoom(factor, this.time(x)),
        brush: (from, to, done) => this.brush(this.time(from), this.time(to), done),
        click: (x, y) => this.point(x, y),
        twice: () => this.page.setRange(null),
        hover: (x, y) => this.point(x, y),
        leave: () => this.unpoint(),
      }),
      this.page.on("range", () => this.settle()),
      this.page.on("live", () => void this.renew()),
      this.page.on("theme", () => this.retheme()),
    );
    this.surface.canvas.addEventListener("keydown", (event) => this.key(event));
    this.surface.canvas.addEventListener("focus", () => this.cursor || this.move(0, 0));
    this.surface.canvas.addEventListener("blur", () => this.unpoint());
  }

  /** Rows are laid out for the width there is. */
  arrange() {
    if (!this.whole || !this.box) return;
    this.layout = new Layout(this.whole.rows, this.element.clientWidth);
    this.box.style.height = `${this.layout.height}px`;
    this.extent.grow(0, Math.max(this.whole.end, this.page.seconds * 1e9, 1e8));
  }

  /** Show the page's window: at once what is held, then finer. */
  settle() {
    const range = this.page.range;
    if (range) this.extent.show(range.from * 1e9, range.to * 1e9);
    else this.extent.all();
    this.brushed = null;
    this.surface?.soon();
    this.refine();
  }

  refine() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(async () => {
      if (this.extent.whole) this.fine = null;
      else {
        try {
          this.fine = await this.ask({ from: this.extent.from, to: this.extent.to });
        } catch {
          return; // asked again with the next move; what is held stays
        }
      }
      this.surface?.soon();
      this.listing?.write();
      this.element.dataset.state = "ready";
    }, SETTLED_MS);
  }

  async renew() {
    try {
      this.whole = await this.ask(null);
    } catch {
      return; // the page says that the server does not answer
    }
    this.arrange();
    this.settle();
  }

  retheme() {
    this.theme = new Theme(this.element);
    this.surface?.now(); // it may be for paper, which waits for no frame
  }

  /** @param {Surface} surface */
  paint(surface) {
    if (this.layout.left !== new Layout([], surface.width).left) this.arrange();
    const held = [this.whole, this.fine].filter((cells) => cells !== null);
    const { layout, extent, theme, what, cursor } = this;
    paint(surface, { layout, extent, theme, held, what, brush: this.brushed, cursor });
  }

  /** @param {number} x @returns {number} ns */
  time(x) {
    const room = Math.max(1, (this.surface?.width ?? 1) - this.layout.left);
    const share = Math.min(1, Math.max(0, (x - this.layout.left) / room));
    return this.extent.from + share * this.extent.span;
  }

  /** @param {number} factor @param {number} at */
  zoom(factor, at) {
    this.extent.zoom(factor, at);
    this.surface?.now();
    this.tell();
  }

  /** The other parts of the page follow when the hand rests. */
  tell() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      const { from, to, whole } = this.extent;
      this.page.setRange(whole ? null : { from: from / 1e9, to: to / 1e9 });
    }, SETTLED_MS);
  }

  /** @param {number} one @param {number} other @param {boolean} done */
  brush(one, other, done) {
    this.brushed = { from: Math.min(one, other), to: Math.max(one, other) };
    this.tipAt(`${lasting(this.brushed.to - this.brushed.from)} marked`);
    if (done) this.page.setRange({ from: this.brushed.from / 1e9, to: this.brushed.to / 1e9 });
    this.surface?.soon();
  }

  /** @param {number} x @param {number} y */
  point(x, y) {
    const row = this.layout.row(y);
    if (row < 0 || x < this.layout.left) return this.unpoint();
    this.cursor = { row, time: this.time(x) };
    this.tipAt(this.words(), x, y);
    this.surface?.soon();
  }

  unpoint() {
    this.cursor = null;
    if (this.tip) this.tip.hidden = true;
    this.surface?.soon();
  }

  /** What the cell under the cursor says. @returns {string} */
  words() {
    if (!this.cursor) return "";
    const { row, time } = this.cursor;
    const cells = this.fine && this.fine.column(time) >= 0 ? this.fine : this.whole;
    const about = cells?.rows[row];
    if (!cells || !about) return "";
    const column = cells.column(time);
    const at = row * cells.columns + column;
    const [mean, low, high] = column < 0 ? [NaN, NaN, NaN] : [cells.mean[at], cells.low[at], cells.high[at]];
    const spread = low === high || Number.isNaN(mean) ? "" : ` (${reading(low, about.unit)} to ${reading(high, about.unit)})`;
    const share = about.unit === "%" || Number.isNaN(mean) ? "" : `, ${Math.round((100 * mean) / about.full)} % of ${reading(about.full, about.unit)}`;
    return `${about.node} · ${about.name} · ${moment(time, this.extent.span)}: ${reading(mean, about.unit)}${spread}${share}`;
  }

  /** @param {string} text @param {number} [x] @param {number} [y] */
  tipAt(text, x, y) {
    if (!this.tip || !this.surface) return;
    this.tip.textContent = text;
    this.tip.hidden = false;
    if (x === undefined || y === undefined) return;
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(x + 12, this.surface.width - wide))}px`;
    this.tip.style.top = `${y + 16}px`;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const step = (this.fine ?? this.whole)?.step ?? 1e9;
    const at = this.cursor?.time ?? (this.extent.from + this.extent.to) / 2;
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowUp: () => this.move(-1, 0),
      ArrowDown: () => this.move(1, 0),
      ArrowLeft: () => this.move(0, -step, event.shiftKey),
      ArrowRight: () => this.move(0, step, event.shiftKey),
      "+": () => this.zoom(0.5, at),
      "-": () => this.zoom(2, at),
      Escape: () => this.page.setRange(null),
      Enter: () => this.brushed && this.brush(this.brushed.from, this.brushed.to, true),
    };
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** @param {number} rows @param {number} time @param {boolean} [marking] */
  move(rows, time, marking = false) {
    const count = this.layout.rows.length;
    const from = this.cursor ?? { row: 0, time: (this.extent.from + this.extent.to) / 2 };
    const row = Math.min(count - 1, Math.max(0, from.row + rows));
    this.cursor = { row, time: Math.min(this.extent.to - 1, Math.max(this.extent.from, from.time + time)) };
    if (marking) {
      const begun = this.brushed && (this.brushed.from === from.time ? this.brushed.to : this.brushed.from);
      this.brush(begun ?? from.time, this.cursor.time, false);
    }
    const room = (this.surface?.width ?? 1) - this.layout.left;
    const x = this.layout.left + ((this.cursor.time - this.extent.from) / this.extent.span) * room;
    this.tipAt(this.words(), x, this.layout.tops[row]);
    if (this.said) this.said.textContent = this.words();
    this.surface?.soon();
  }

  destroy() {
    clearTimeout(this.timer);
    this.asking.abort();
    this.ends.forEach((end) => end());
    this.surface?.destroy();
    this.element.replaceChildren(...this.first);
  }
}

/** @param {unknown} error @returns {string} */
const said = (error) => (error instanceof Error ? error.message : String(error));
