// Describes the selection: the details of an event, its connections, or the length of a measured range.

import { make } from "../canvas/elements.js";
import { lasting, moment } from "../canvas/time.js";

/**
 * @typedef {import("./picking.js").Picked} Picked
 * @typedef {import("./painter.js").Arrow} Arrow
 * @typedef {{row: Record<string, unknown>, connections: Arrow[]}} Detail
 */

const LONG_NAME = 300;
/** Columns that are told in other words already. */
const TOLD = new Set(["time", "duration", "name", "detail", "node", "batch"]);
const DIRECTIONS = /** @type {Record<string, [string, string]>} */ ({
  launch: ["was launched by", "launched"],
  forward_backward: ["backward of", "its backward pass"],
});

export class Panel {
  /** @param {{fit: () => void, go: (arrow: Arrow) => void, track: (lane: number) => string}} acts */
  constructor(acts) {
    this.acts = acts;
    this.element = make("section.timeline-panel", { "aria-label": "selection", "aria-live": "polite" });
    this.none();
  }

  none() {
    this.element.replaceChildren(
      make("p.note", {}, "Select an event to see all of it: click on it, or press . (period). Drag with Shift, or press m twice, to measure. Press ? for all keys."),
    );
  }

  /** @param {{from: number, to: number}} range */
  stretch({ from, to }) {
    const span = to - from;
    this.element.replaceChildren(
      make("h3", {}, `${lasting(span)} measured`),
      facts([
        ["from", moment(from, span)],
        ["to", moment(to, span)],
      ]),
      this.fitting(),
    );
  }

  fitting() {
    return make("p", {}, make("button", { type: "button", onclick: () => this.acts.fit() }, "Zoom to it (f)"));
  }

  /** @param {Picked} event @param {Detail | string | null} detail null: it has not come yet; text: why it did not */
  event(event, detail) {
    const several = event.count > 1;
    const name = shortened(event.name);
    const title = several ? `${event.count.toLocaleString("en")} events, the longest of them: ${name}` : name;
    /** @type {[string, string][]} */
    const told = [
      ["track", this.acts.track(event.lane)],
      ["begins", moment(event.time, Math.max(event.duration, 1e3))],
      [several ? "from first to last" : "takes", lasting(event.duration)],
    ];
    if (several) told.push(["busy", lasting(event.busy)]);
    /** @type {(Node | string)[]} */
    const parts = [make("h3", {}, title)];
    if (several) parts.push(make("p.note", {}, "Several events that are too short to separate here: zoom in."));
    if (typeof detail === "string") parts.push(make("p.headline", {}, detail));
    if (detail && typeof detail === "object") {
      const { name } = detail.row;
      if (typeof name === "string") {
        parts[0] = make("h3", {}, shortened(name));
        if (name.length > LONG_NAME) told.push(["name", name]);
      }
      for (const [name, value] of Object.entries(detail.row)) {
        if (!TOLD.has(name) && value !== "" && value !== null && value !== -1) told.push([name.replaceAll("_", " "), String(value)]);
      }
      told.push(...argumentsOf(detail.row.detail));
      if (detail.connections.length) parts.push(this.connected(event, detail.connections));
    }
    parts.splice(1, 0, facts(told));
    this.element.replaceChildren(...parts, this.fitting());
  }

  /** @param {Picked} event @param {Arrow[]} arrows */
  connected(event, arrows) {
    const items = arrows.map((arrow) => {
      const [came, leads] = DIRECTIONS[arrow.kind] ?? ["comes from", "leads to"];
      const apart = arrow.earlier ? event.time - arrow.time : arrow.time - event.time;
      const text = `${arrow.earlier ? came : leads}: ${arrow.name}`;
      const where = ` on ${this.acts.track(arrow.lane)}, ${lasting(Math.abs(apart))} ${arrow.earlier ? "before" : "after"}, took ${lasting(arrow.duration)}`;
      return make("li", {}, make("button", { type: "button", onclick: () => this.acts.go(arrow) }, text), where);
    });
    return make("div", {}, make("h4", {}, "Connections"), make("ul", {}, ...items));
  }
}

/** @param {string} name @returns {string} */
const shortened = (name) => (name.length > LONG_NAME ? `${name.slice(0, LONG_NAME)}…` : name);

/** @param {[string, string][]} told */
function facts(told) {
  return make("dl.timeline-facts", {}, ...told.map(([name, value]) => make(value.length > 90 ? "div.long" : "div", {}, make("dt", {}, name), make("dd", {}, value))));
}

/** What a trace says of an event beyond the columns: a JSON object as text. @param {unknown} detail @returns {[string, string][]} */
function argumentsOf(detail) {
  if (typeof detail !== "string" || !detail) return [];
  try {
    const given = JSON.parse(detail);
    if (given && typeof given === "object" && !Array.isArray(given)) {
      return Object.entries(given).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
    }
  } catch {
    // Shown as it is.
  }
  return [["detail", detail]];
}
