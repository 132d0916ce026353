// The timeline of a job: what every thread, stream and counter did, from days down to single nanoseconds.

import { Theme } from "../canvas/colors.js";
import { make } from "../canvas/elements.js";
import { Extent } from "../canvas/extent.js";
import { gestures } from "../canvas/gestures.js";
import { Surface } from "../canvas/surface.js";
import { bar } from "../timeline/bar.js";
import { Curves } from "../timeline/curves.js";
import { Finder } from "../timeline/finder.js";
import { commands } from "../timeline/keys.js";
import { Labels } from "../timeline/labels.js";
import { Painter, TOP } from "../timeline/painter.js";
import { Panel } from "../timeline/panel.js";
import { LINE, Rows } from "../timeline/rows.js";
import { Selection } from "../timeline/selection.js";
import { Source } from "../timeline/source.js";
import { Tiles } from "../timeline/tiles.js";

/** @typedef {import("../page.js").Page} Page */

const SETTLED_MS = 60;
const TOLD_MS = 250;
const LATE_MS = 1000;
const SHORTEST_NS = 50;

/** @param {HTMLElement} element @param {Page} page */
export function mount(element, page) {
  return new Timeline(element, page);
}

export class Timeline {
  /** @param {HTMLElement} element @param {Page} page */
  constructor(element, page) {
    this.element = element;
    this.page = page;
    this.first = [...element.childNodes];
    this.source = new Source(page);
    this.rows = new Rows(page.rank);
    this.extent = new Extent(0, 1e9, SHORTEST_NS);
    this.theme = new Theme(element);
    this.painter = new Painter(this.theme);
    this.tiles = new Tiles(
      (query, signal) => this.source.tiles(query, signal),
      () => this.draw(),
      () => void this.renew(),
    );
    this.curves = new Curves(
      (query, signal) => this.source.curves(query, signal),
      () => this.draw(),
    );
    this.labels = new Labels(
      this.rows,
      (row) => {
        this.rows.turn(row);
        this.arrange();
      },
      (by) => this.view && (this.view.scrollTop += by),
    );
    this.panel = new Panel({ fit: () => this.selection.fit(), pin: () => this.pin(), leave: () => this.selection.clear(), go: (arrow) => void this.selection.go(arrow), track: (lane) => this.rows.track(lane) });
    this.selection = new Selection(this);
    this.finder = new Finder(page.rank, {
      search: (text, signal) => this.source.search(text, signal),
      step: (codes, backward) => this.selection.follow(codes, backward),
      choose: (codes) => {
        this.chosen = codes;
        this.draw();
      },
    });
    /** @type {ReadonlySet<number> | null} */
    this.chosen = null;
    this.said = "";
    /** @type {number | null} */
    this.hover = null;
    /** @type {{step: number, time: number, duration: number}[]} */
    this.steps = [];
    this.stepped = { from: 0, to: -1 };
    this.ends = /** @type {(() => void)[]} */ ([]);
    this.timers = { want: 0, tell: 0, late: 0 };
    void this.load();
  }

  async load() {
    try {
      const head = await this.source.head();
      if (!head.events) return; // the page says how to get some
      this.tiles.version = head.version;
      this.rows.plant(head.tree);
      this.extent = new Extent(head.from_ns, head.to_ns, SHORTEST_NS);
      this.build();
    } catch (error) {
      this.element.append(make("p.note", {}, `The live timeline could not be loaded: ${error instanceof Error ? error.message : error}`));
    }
  }

  build() {
    this.box = make("div.surface-box.timeline-canvas");
    this.space = make("div");
    this.view = make("div.timeline-view", { tabindex: "-1" }, make("div.timeline-fixed", {}, this.labels.element, this.box), this.space);
    this.state = make("p.note", { role: "status" });
    this.element.replaceChildren(bar(this), this.finder.list, this.view, this.state, this.panel.element);
    this.surface = new Surface(this.box, (surface) => this.paint(surface));
    const about = "Timeline. Arrows or a and d: pan. w and s: zoom. Period and comma: next and previous event. f: zoom to the selection. m: measure.";
    for (const [name, value] of Object.entries({ tabindex: "0", role: "application", "aria-label": about })) this.surface.canvas.setAttribute(name, value);
    this.view.addEventListener("scroll", () => this.draw());
    this.ends.push(
      gestures(this.surface.canvas, {
        zoom: (factor, x) => this.zoom(factor, this.time(x)),
        drag: (dx, dy) => {
          this.extent.pan(-dx / (this.surface?.width || 1));
          if (this.view) this.view.scrollTop -= dy;
          this.moved();
        },
        brush: (from, to, done) => this.selection.measure(this.time(Math.min(from, to)), this.time(Math.max(from, to)), done),
        click: (x, y) => this.selection.at(x, y),
        twice: (x, y) => {
          this.selection.at(x, y);
          this.selection.fit();
        },
        hover: (x) => {
          this.hover = this.time(x);
          this.draw();
        },
        leave: () => {
          this.hover = null;
          this.draw();
        },
      }),
      commands(this),
      this.page.on("range", () => this.follow()),
      this.page.on("live", async () => {
        const again = await this.renew();
        // The server opens what took it long again a little later only: the last change is not to be missed.
        clearTimeout(this.timers.late);
        this.timers.late = window.setTimeout(() => void this.renew(), again + LATE_MS);
      }),
      this.page.on("theme", () => {
        this.theme = new Theme(this.element);
        this.draw();
      }),
    );
    this.arrange();
    this.follow();
  }

  /** Rows were laid out anew. */
  arrange() {
    if (!this.space || !this.view) return;
    this.labels.inside.style.height = `${this.rows.height}px`;
    this.space.style.height = `${Math.max(0, this.rows.height + TOP - this.view.clientHeight)}px`;
    this.view.style.setProperty("--rows", `${this.rows.height + TOP}px`);
    this.draw();
  }

  /** Show the page's window. */
  follow() {
    this.element.dataset.state = "moving";
    const range = this.page.range;
    const [from, to] = range ? [range.from * 1e9, range.to * 1e9] : [this.extent.low, this.extent.high];
    // Seconds have fewer digits than ns: the timeline that moved ignores its own event.
    const near = this.extent.span / 1e4 + 1;
    if (Math.abs(from - this.extent.from) > near || Math.abs(to - this.extent.to) > near) this.extent.show(from, to);
    this.draw();
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    this.extent.show(from, to);
    this.moved();
  }

  /** @param {number} factor @param {number} [at] */
  zoom(factor, at = this.hover ?? (this.extent.from + this.extent.to) / 2) {
    this.extent.zoom(factor, at);
    this.moved();
  }

  /** The rest of the page follows when the hand rests. */
  moved() {
    this.element.dataset.state = "moving";
    this.draw();
    clearTimeout(this.timers.tell);
    this.timers.tell = window.setTimeout(() => {
      this.timers.tell = 0;
      const { from, to, whole } = this.extent;
      this.page.setRange(whole ? null : { from: from / 1e9, to: to / 1e9 });
    }, TOLD_MS);
  }

  draw() {
    this.surface?.soon();
  }

  /** Say something below the canvas. @param {string} text */
  say(text) {
    this.said = text;
    this.draw();
  }

  /** Bring the track of the selected event to the top, or back to its place. */
  pin() {
    const lane = this.selection.selected?.lane;
    if (lane === undefined) return;
    this.rows.pin(lane, this.rows.track(lane));
    this.arrange();
    if (this.view && this.rows.pinned.has(lane)) this.view.scrollTop = 0;
  }

  get scroll() {
    return this.view?.scrollTop ?? 0;
  }

  /** @param {number} x @returns {number} */
  time(x) {
    return this.extent.from + (x / Math.max(1, this.surface?.width ?? 1)) * this.extent.span;
  }

  /** The row and its line at a height. @param {number} y */
  line(y) {
    const at = y - TOP + this.scroll;
    const [row] = y < TOP ? [] : this.rows.between(at, at + 0.5);
    return row ? { row, depth: Math.min(row.lines - 1, Math.max(0, Math.floor((at - row.top - 2) / LINE))) } : null;
  }

  /** @param {import("../canvas/surface.js").Surface} surface */
  paint(surface) {
    const { extent, rows, tiles, curves, theme, scroll, steps, hover, chosen } = this;
    const { selected, arrows, measured } = this.selection;
    this.painter.paint(surface, { extent, rows, tiles, curves, theme, scroll, steps, hover, chosen, selected, arrows, measured });
    this.labels.show(scroll, surface.height - TOP);
    if (this.state) this.state.textContent = tiles.wrong ? `Not all could be loaded: ${tiles.wrong}` : this.said;
    this.timers.want ||= window.setTimeout(() => {
      this.timers.want = 0;
      this.want(surface);
    }, SETTLED_MS);
  }

  /** Ask for what is seen and missing. @param {import("../canvas/surface.js").Surface} surface */
  want({ width, height }) {
    const seen = this.rows.between(this.scroll, this.scroll + height - TOP);
    const lanes = seen.flatMap(({ entry, streams }) => (entry.lane === undefined ? streams : [entry.lane]));
    const { from, to, span } = this.extent;
    this.tiles.want(from, to, width, [...new Set(lanes)]);
    const series = seen.flatMap(({ entry }) =>
      entry.series === undefined ? [] : [{ number: entry.series, unit: entry.unit ?? "", holds: entry.kind === "counter" }],
    );
    void this.curves.want(from, to, series);
    const loading = this.tiles.busy || this.curves.busy;
    this.element.dataset.state = this.timers.tell ? "moving" : loading ? "loading" : "ready";
    if (this.stepped.from <= from && this.stepped.to >= to && this.stepped.to - this.stepped.from < 6 * span) return;
    this.stepped = { from: from - span, to: to + span };
    void this.source.steps(this.stepped.from, this.stepped.to).then(
      ({ steps }) => {
        this.steps = steps;
        this.draw();
      },
      () => (this.stepped = { from: 0, to: -1 }),
    );
  }

  /** The job has grown; returns in how many ms the server looks for more. */
  async renew() {
    try {
      const head = await this.source.head();
      const again = 1000 * head.again_s;
      this.tiles.retry();
      this.curves.retry();
      if (!head.events || head.version === this.tiles.version) return again;
      this.tiles.clear();
      this.curves.clear();
      this.tiles.version = head.version;
      this.stepped = { from: 0, to: -1 };
      this.finder.clear();
      this.selection.clear();
      this.rows.plant(head.tree);
      this.extent.grow(head.from_ns, head.to_ns);
      this.arrange();
      return again;
    } catch (error) {
      this.tiles.wrong = error instanceof Error ? error.message : String(error);
      this.draw();
      return 0;
    }
  }

  destroy() {
    Object.values(this.timers).forEach(clearTimeout);
    this.tiles.stop();
    this.ends.forEach((end) => end());
    this.surface?.destroy();
    this.element.replaceChildren(...this.first);
  }
}
