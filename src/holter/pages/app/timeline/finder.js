// The search of a timeline: names that contain a text, with counts and durations, and steps from match to match.

import { make } from "../canvas/elements.js";
import { lasting } from "../canvas/time.js";
import { counted } from "../words.js";

/**
 * @typedef {{code: number, name: string, count: number, total_ns: number}} Found
 *
 * @typedef {object} Acts
 * @property {(text: string, signal: AbortSignal) => Promise<{found: Found[]}>} search
 * @property {(codes: number[], backward: boolean) => Promise<boolean>} step whether there is one
 * @property {(codes: ReadonlySet<number> | null) => void} choose
 */

export class Finder {
  /** @param {number | null} rank the only rank that is searched; null for all @param {Acts} acts */
  constructor(rank, acts) {
    this.acts = acts;
    this.where = rank === null ? "" : ` in rank ${rank}`;
    this.asking = new AbortController();
    /** @type {Found[]} */
    this.found = [];
    /** @type {number | null} the one name that is meant; null: all */
    this.only = null;
    this.input = /** @type {HTMLInputElement} */ (make("input", { type: "search", placeholder: "find events", "aria-label": "part of an event's name", maxlength: "200" }));
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {boolean} */ back) =>
      make("button", { type: "button", "aria-label": label, title: label, onclick: () => void this.step(back) }, text);
    this.said = make("output");
    this.list = make("ul.timeline-found");
    this.element = make(
      "form.timeline-finder",
      { role: "search", onsubmit: (/** @type {Event} */ event) => void this.submit(event) },
      this.input,
      make("button", {}, "Find"),
      button("◀", "previous (N)", true),
      button("▶", "next (n)", false),
      this.said,
    );
    this.input.addEventListener("input", () => this.input.value || this.clear());
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.input.value = "";
      this.clear();
      this.input.blur();
    });
    this.last = "";
  }

  clear() {
    this.asking.abort();
    [this.found, this.only, this.last] = [[], null, ""];
    this.said.textContent = "";
    this.list.replaceChildren();
    this.acts.choose(null);
  }

  /** @param {Event} event */
  async submit(event) {
    event.preventDefault();
    const text = this.input.value.trim();
    if (!text) return this.clear();
    if (text === this.last) return this.step(false);
    this.asking.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    this.said.textContent = "searching …";
    try {
      const { found } = await this.acts.search(text, signal);
      if (signal.aborted) return;
      [this.found, this.only, this.last] = [found, null, text];
      const events = found.reduce((sum, { count }) => sum + count, 0);
      this.said.textContent = found.length ? `${counted(events, "event")}, ${counted(found.length, "name")}${this.where}` : `no matching event${this.where}`;
      this.show();
      this.acts.choose(new Set(found.map(({ code }) => code)));
      if (found.length) await this.step(false);
    } catch (error) {
      if (!signal.aborted) this.said.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  show() {
    const items = this.found.map(({ code, name, count, total_ns: total }) => {
      const pressed = this.only === code;
      const button = make("button", { type: "button", "aria-pressed": String(pressed), onclick: () => this.choose(pressed ? null : code) }, name);
      return make("li", {}, button, ` ${count.toLocaleString("en")} × · ${lasting(total)}`);
    });
    this.list.replaceChildren(...items);
  }

  /** @param {number | null} code */
  choose(code) {
    this.only = code;
    this.show();
    this.acts.choose(new Set(this.codes()));
    void this.step(false);
  }

  codes() {
    return this.only === null ? this.found.map(({ code }) => code) : [this.only];
  }

  /** @param {boolean} backward */
  async step(backward) {
    if (!this.found.length) return;
    try {
      if (!(await this.acts.step(this.codes(), backward))) this.said.textContent = backward ? "no earlier match" : "no later match";
    } catch (error) {
      this.said.textContent = error instanceof Error ? error.message : String(error);
    }
  }
}
