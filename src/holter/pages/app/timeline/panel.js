// Describes the selection: the details of an event, its connections, or the length of a measured range.

import { make } from "../canvas/elements.js";
import { lasting, moment } from "../canvas/time.js";
import { number } from "../words.js";

/**
 * @typedef {import("./picking.js").Picked} Picked
 * @typedef {import("./painter.js").Arrow} Arrow
 * @typedef {{row: Record<string, unknown>, connections: Arrow[]}} Detail
 * @typedef {{kind: string, name: string, whole_name: string, count: number, total_ns: number, mean_ns: number}} AreaEntry
 */

const LONG_NAME = 300;
/** Columns that are told in other words already. */
const TOLD = new Set(["table", "time", "duration", "name", "detail", "node", "batch"]);
const DIRECTIONS = /** @type {Record<string, [string, string]>} */ ({
  launch: ["was launched by", "launched"],
  forward_backward: ["backward of", "its backward pass"],
});

export class Panel {
  /** @param {{fit: () => void, pin: () => void, leave: () => void, go: (arrow: Arrow) => void, track: (lane: number) => string}} acts */
  constructor(acts) {
    this.acts = acts;
    this.element = make("section.timeline-panel", { "aria-label": "selection", "aria-live": "polite" });
    this.none();
  }

  none() {
    this.element.replaceChildren(
      make("p.note", {}, "Select an event to see all of it: click on it, or press . (period). Drag with Shift, or press m twice, to list the events of an area. Press ? for all keys."),
    );
  }

  /**
   * @param {{from: number, to: number}} range
   * @param {{entries: AreaEntry[], entries_in_all: number} | string | null} found null: not yet; text: why not
   */
  stretch({ from, to }, found) {
    const span = to - from;
    const parts = [
      make("h3", {}, `${lasting(span)} selected`),
      facts([
        ["from", moment(from, span)],
        ["to", moment(to, span)],
      ]),
    ];
    if (typeof found === "string") parts.push(make("p.note", {}, `The events could not be summed: ${found}`));
    else if (found) parts.push(...area(found.entries, found.entries_in_all, span));
    this.element.replaceChildren(this.closing(), ...parts, this.fitting());
  }

  /** Closes the sheet, which it is on a phone. */
  closing() {
    return make("button.close", { type: "button", onclick: () => this.acts.leave() }, "Close");
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
    const pin = make("button", { type: "button", onclick: () => this.acts.pin() }, "Pin its track (p)");
    const acts = this.fitting();
    acts.append(" ", pin);
    this.element.replaceChildren(this.closing(), ...parts, acts);
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

/** The events of an area by name. @param {AreaEntry[]} entries @param {number} all @param {number} span ns */
function area(entries, all, span) {
  if (!entries.length) return [make("p.note", {}, "No event of the tracks that are shown lies in it.")];
  const heads = make("tr", {}, ...["name", "tracks", "count", "total", "share", "mean"].map((head, at) => make(at > 1 ? "th.n" : "th", { scope: "col" }, head)));
  const rows = entries.map((one) =>
    make(
      "tr",
      {},
      make("td", one.name === one.whole_name ? {} : { title: one.whole_name }, shortened(one.name)),
      make("td", {}, one.kind.replaceAll("_", " ")),
      ...[one.count.toLocaleString("en"), lasting(one.total_ns), `${number((100 * one.total_ns) / span)} %`, lasting(one.mean_ns)].map((text) => make("td.n", {}, text)),
    ),
  );
  const table = make("table", {}, make("thead", {}, heads), make("tbody", {}, ...rows));
  const more = all > entries.length ? [make("p.note", {}, `The ${entries.length} names with the most time, of ${all.toLocaleString("en")}.`)] : [];
  const about = make("p.note", {}, "Events of the tracks that are shown; nested events count each. Total: the time inside of the selection; mean: of whole events.");
  return [make("div.scroll.timeline-area", { tabindex: "0", role: "region", "aria-label": "events of the selection" }, table), ...more, about];
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
