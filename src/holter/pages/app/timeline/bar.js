// The toolbar of a timeline: search, filter of tracks, and buttons for the keyboard commands.

import { make } from "../canvas/elements.js";
import { openInPerfetto } from "./perfetto.js";

/** @typedef {import("../islands/timeline.js").Timeline} Timeline */

/** @param {Timeline} timeline @returns {HTMLElement} */
export function bar(timeline) {
  const { rows, finder } = timeline;
  const act = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ run) =>
    make("button", { type: "button", title: label, "aria-label": /[a-z]/.test(text) ? null : label, onclick: run }, text);
  const filter = /** @type {HTMLInputElement} */ (
    make("input", { type: "search", placeholder: "filter tracks", "aria-label": "part of a track's name" })
  );
  filter.addEventListener("input", () => {
    rows.filter = filter.value.trim().toLowerCase();
    rows.lay();
    timeline.arrange();
  });
  const open = (/** @type {boolean} */ all) => {
    rows.all(all);
    timeline.arrange();
  };
  return make(
    "div.timeline-bar",
    {},
    finder.element,
    filter,
    act("+", "zoom in (w)", () => timeline.zoom(0.5)),
    act("−", "zoom out (s)", () => timeline.zoom(2)),
    act("Whole job", "show the whole job (0)", () => timeline.show(timeline.extent.low, timeline.extent.high)),
    act("Open all", "open all tracks", () => open(true)),
    act("Close all", "close all tracks", () => open(false)),
    timeline.page.alone
      ? null
      : act("Open in Perfetto", "open this window in ui.perfetto.dev, which is loaded from the internet; the trace stays in your browser", () =>
          void openInPerfetto(timeline.page, timeline.page.range, (text) => timeline.say(text)),
        ),
  );
}
