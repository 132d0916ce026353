// The names of a timeline's rows beside the canvas: the visible part of the tree, with buttons that open it.

import { make } from "../canvas/elements.js";
import { counted } from "../words.js";

/**
 * @typedef {import("./rows.js").Row} Row
 * @typedef {import("./rows.js").Rows} Rows
 */

export class Labels {
  /** @param {Rows} rows @param {(row: Row) => void} turn @param {(by: number) => void} scrolled */
  constructor(rows, turn, scrolled) {
    this.rows = rows;
    this.turn = turn;
    this.inside = make("div.timeline-labels-inside");
    this.element = make("div.timeline-labels", { role: "group", "aria-label": "tracks" }, this.inside);
    // A browser that brings the focus into view scrolls the names alone: the canvas goes with them.
    this.element.addEventListener("scroll", () => {
      const by = this.element.scrollTop;
      if (!by) return;
      this.element.scrollTop = 0;
      scrolled(by);
    });
    /** @type {Map<string, HTMLElement>} */
    this.drawn = new Map();
  }

  /** @param {number} scroll @param {number} height */
  show(scroll, height) {
    this.inside.style.transform = `translateY(${-scroll}px)`;
    const seen = this.rows.between(scroll - 100, scroll + height + 100);
    const kept = new Set(seen.map((row) => row.key));
    for (const [key, element] of this.drawn) {
      if (kept.has(key)) continue;
      element.remove();
      this.drawn.delete(key);
    }
    let place = this.inside.firstElementChild;
    for (const row of seen) {
      let element = this.drawn.get(row.key);
      if (!element) {
        element = this.label(row);
        this.drawn.set(row.key, element);
      }
      // In the order of the rows: Tab goes through them.
      if (element === place) place = place.nextElementSibling;
      else this.inside.insertBefore(element, place);
      element.style.top = `${row.top}px`;
      element.style.height = `${row.height}px`;
      if (row.opens) element.setAttribute("aria-expanded", String(row.open));
    }
  }

  /** @param {Row} row @returns {HTMLElement} */
  label(row) {
    const { entry } = row;
    const events = entry.events === undefined ? "" : `, ${counted(entry.events, "event")}`;
    const name = row.title ?? entry.name;
    const text = make("span", {}, name);
    const attributes = { title: `${name}${events}` };
    const element = row.opens
      ? make("button", { ...attributes, type: "button", onclick: () => this.again(row.key) }, text)
      : make("div", attributes, text);
    element.classList.add("timeline-label", `kind-${entry.kind}`);
    element.style.paddingLeft = `${4 + row.indent * 10}px`;
    return element;
  }

  /** Rows are made anew when one opens: the one of now is meant. @param {string} key */
  again(key) {
    const row = this.rows.list.find((one) => one.key === key);
    if (row) this.turn(row);
  }
}
