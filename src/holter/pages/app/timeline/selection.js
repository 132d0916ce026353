// The selection of a timeline: an event with its arrows or a measured range, and moves to the next event.

import { TOP } from "./painter.js";
import { neighbor, pick } from "./picking.js";
import { LINE } from "./rows.js";

/**
 * @typedef {import("../islands/timeline.js").Timeline} Timeline
 * @typedef {import("./picking.js").Picked} Picked
 * @typedef {import("./painter.js").Arrow} Arrow
 */

const MOST_LANES = 128; // as many as the server takes at once

export class Selection {
  /** @param {Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    /** @type {Picked | null} */
    this.selected = null;
    /** @type {Arrow[]} */
    this.arrows = [];
    /** @type {{from: number, to: number} | null} */
    this.measured = null;
    /** @type {number | null} where a measurement by keys began */
    this.mark = null;
    this.number = 0;
  }

  clear() {
    [this.selected, this.arrows, this.measured, this.mark] = [null, [], null, null];
    this.number += 1;
    this.timeline.panel.none();
    this.timeline.draw();
  }

  /** Take what lies at a place. @param {number} x @param {number} y */
  at(x, y) {
    const { timeline } = this;
    const place = timeline.line(y);
    const lane = place?.row.entry.lane;
    const width = timeline.surface?.width ?? 1;
    const found = place && lane !== undefined ? pick(timeline.tiles, timeline.extent, width, lane, place.depth, timeline.time(x)) : null;
    if (found) void this.take(found);
    else this.clear();
  }

  /** @param {Picked} event */
  async take(event) {
    const { panel, source } = this.timeline;
    const number = ++this.number;
    [this.selected, this.arrows, this.measured, this.mark] = [event, [], null, null];
    panel.event(event, null);
    this.timeline.draw();
    if (event.count > 1) return;
    try {
      const detail = await source.event(event);
      if (number !== this.number) return;
      this.arrows = detail.connections;
      panel.event(event, detail);
    } catch (error) {
      if (number === this.number) panel.event(event, error instanceof Error ? error.message : String(error));
    }
    this.timeline.draw();
  }

  /** Go to the other end of an arrow. @param {Arrow} arrow */
  async go(arrow) {
    this.center(arrow);
    await this.take(arrow);
  }

  /** The next event with one of some names, or the one before. @param {number[]} codes @param {boolean} backward @returns {Promise<boolean>} */
  async follow(codes, backward) {
    const { timeline } = this;
    const { from, to } = timeline.extent;
    const seen = this.selected && this.selected.time >= from && this.selected.time <= to ? this.selected.time : null;
    const { event } = await timeline.source.following(codes, seen ?? (backward ? to : from - 1), backward);
    if (!event) return false;
    this.center(event);
    await this.take(event);
    return true;
  }

  /** Bring an event into view, the zoom staying where the event can be seen. @param {Picked} event */
  center(event) {
    const { timeline } = this;
    const { extent, rows, view, surface } = timeline;
    const row = rows.reveal(event.lane);
    timeline.arrange();
    const middle = event.time + event.duration / 2;
    const span = Math.min(extent.span, Math.max(event.duration * 400, 1e3));
    const wide = Math.max(span, event.duration * 1.2);
    if (event.time < extent.from || event.time + event.duration > extent.to || wide !== extent.span) timeline.show(middle - wide / 2, middle + wide / 2);
    if (!row || !view || !surface) return;
    const top = row.top + Math.min(event.depth, row.lines - 1) * LINE;
    if (top < view.scrollTop || top + LINE > view.scrollTop + surface.height - TOP) view.scrollTop = Math.max(0, top - surface.height / 3);
  }

  /** Zoom to what is selected. */
  fit() {
    if (this.measured) this.timeline.show(this.measured.from, this.measured.to);
    else if (this.selected) {
      const { time, duration } = this.selected;
      const edge = Math.max(duration * 0.1, 50);
      this.timeline.show(time - edge, time + duration + edge);
    }
  }

  /** @param {number} from @param {number} to @param {boolean} [done] whether the hand has let go */
  measure(from, to, done = true) {
    const measured = { from, to };
    [this.selected, this.arrows, this.measured] = [null, [], measured];
    const number = ++this.number;
    const { panel, rows, source } = this.timeline;
    panel.stretch(measured, null);
    this.timeline.draw();
    if (!done || to - from < 1) return;
    const lanes = rows.list.flatMap(({ entry }) => (entry.lane === undefined ? [] : [entry.lane]));
    if (!lanes.length) return;
    source.area(from, to, lanes.slice(0, MOST_LANES)).then(
      (found) => number === this.number && panel.stretch(measured, found),
      (error) => number === this.number && panel.stretch(measured, error instanceof Error ? error.message : String(error)),
    );
  }

  /** The first time mark a moment, then measure from it: under the hand, or where the selection begins. */
  marked() {
    const { extent, hover } = this.timeline;
    const at = hover ?? this.selected?.time ?? (extent.from + extent.to) / 2;
    if (this.mark === null) {
      this.mark = at;
      this.measured = { from: at, to: at };
      this.timeline.draw();
    } else {
      const mark = this.mark;
      this.measure(Math.min(mark, at), Math.max(mark, at));
      this.mark = null;
    }
  }

  /** To the next or the previous event on the line; without any, the first one that is seen. @param {1 | -1} direction */
  along(direction) {
    const { tiles, extent, surface } = this.timeline;
    const width = surface?.width ?? 1;
    if (!this.selected) return this.enter(0, 1);
    const { lane, depth, time } = this.selected;
    const found = neighbor(tiles, extent, width, lane, depth, time, direction);
    if (!found) return;
    if (found.time < extent.from || found.time + found.duration > extent.to) this.center(found);
    void this.take(found);
  }

  /** To the nearest event on the line below or above. @param {1 | -1} direction */
  across(direction) {
    if (!this.selected) return this.enter(0, 1);
    const { lane, depth } = this.selected;
    const { rows } = this.timeline;
    const at = rows.list.findIndex(({ entry }) => entry.lane === lane);
    const line = depth + direction;
    if (at >= 0 && line >= 0 && line < rows.list[at].lines && this.near(lane, line)) return;
    this.enter(at + direction, direction);
  }

  /** Take the first event of the first row from there on that has any in view. @param {number} at @param {1 | -1} direction */
  enter(at, direction) {
    const { rows } = this.timeline;
    for (let place = at; place >= 0 && place < rows.list.length; place += direction) {
      const { entry, lines } = rows.list[place];
      if (entry.lane !== undefined && this.near(entry.lane, direction > 0 ? 0 : lines - 1)) return;
    }
  }

  /** @param {number} lane @param {number} depth @returns {boolean} */
  near(lane, depth) {
    const { tiles, extent, surface } = this.timeline;
    const width = surface?.width ?? 1;
    const before = this.selected;
    const found =
      (before && pick(tiles, extent, width, lane, depth, before.time + before.duration / 2)) ?? neighbor(tiles, extent, width, lane, depth, null);
    if (!found) return false;
    this.center(found);
    void this.take(found);
    return true;
  }
}
