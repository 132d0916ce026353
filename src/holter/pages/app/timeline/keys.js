// The keys of a timeline. They work while the timeline, or nothing, has the focus.

/** @typedef {import("../islands/timeline.js").Timeline} Timeline */

const PAN = 0.2;

/** @param {Timeline} timeline @returns {() => void} ends it */
export function commands(timeline) {
  const { page, selection } = timeline;
  const pan = (/** @type {number} */ share) => () => {
    timeline.extent.pan(share);
    timeline.moved();
  };
  const in_ = () => timeline.zoom(1 / 1.4);
  const out = () => timeline.zoom(1.4);
  /** @type {[string[], string, () => void][]} */
  const keys = [
    [["w"], "Timeline: zoom in", in_],
    [["s"], "Timeline: zoom out", out],
    [["a", "ArrowLeft"], "Timeline: pan left", pan(-PAN)],
    [["d", "ArrowRight"], "Timeline: pan right", pan(PAN)],
    [["f"], "Timeline: zoom to the selection", () => selection.fit()],
    [["0"], "Timeline: the whole job", () => timeline.show(timeline.extent.low, timeline.extent.high)],
    [["."], "Timeline: next event on the line", () => selection.along(1)],
    [[","], "Timeline: previous event on the line", () => selection.along(-1)],
    [["ArrowDown"], "Timeline: event below", () => selection.across(1)],
    [["ArrowUp"], "Timeline: event above", () => selection.across(-1)],
    [["p"], "Timeline: pin the track of the selected event to the top, or unpin it", () => timeline.pin()],
    [["m"], "Timeline: mark a moment; measure from it", () => selection.marked()],
    [["n"], "Timeline: next event found", () => void timeline.finder.step(false)],
    [["N"], "Timeline: previous event found", () => void timeline.finder.step(true)],
    [["/"], "Timeline: find events", () => timeline.finder.input.focus()],
    [["Escape"], "Timeline: select nothing", () => selection.clear()],
  ];
  const ends = keys.flatMap(([names, description, run]) => names.map((key) => page.keys(description, key, run)));
  return () => ends.forEach((end) => end());
}
