// Draws a figure of lines, areas or bars with uPlot.

import { axes } from "./axes.js";
import { downloads } from "./downloads.js";
import { ink } from "./ink.js";
import { build, few } from "./plot_data.js";
import { legend } from "./legend.js";
import uPlot from "./vendor/uPlot.esm.js";
import { slider, smoothable } from "./smoothing.js";
import { Tip } from "./tip.js";

/** @typedef {import("./page.js").Page} Page */
/** @typedef {import("./page.js").AxisName} AxisName */
/** @typedef {import("./figures.js").Figure} Figure */

const HEIGHT = 240;

/** What a figure's x axis is of, where it is time or steps. @param {Figure | null} of @returns {AxisName | null} */
export function dimension(of) {
  if (!of?.x || typeof of.x[0] !== "number") return null;
  if (of.x_axis.label === "step") return "step";
  return of.x_axis.unit === "s" && of.x_axis.label.includes("time") ? "time" : null;
}

/** @typedef {{hidden: Set<string>, cursor: {left: number, top: number} | null, focus: number,
 *   zoom: {min: number, max: number} | null}} Kept what a reader did */

/**
 * @param {HTMLElement} element its inside is replaced
 * @param {Figure} of
 * @param {Page} page
 * @param {Kept} [kept] of the drawing before
 * @param {() => void} [redraw] draws it anew
 */
export function plot(element, of, page, kept, redraw = () => {}) {
  const own = dimension(of);
  // Without steps nothing can be read over steps.
  // Jobs that are compared share no window of time: a chart of them is zoomed by itself.
  const alone = page.compared !== null;
  const shown = own && !alone && (own === page.axis || page.clock.known) ? page.axis : own;
  const { series, bands, data } = build(of, element, turned(of, own, shown, page));
  // What is not finite has no place on the line.
  const broken = (of.broken ?? []).map((ends) => turned({ ...of, x: ends }, own, shown, page));
  for (const one of series) if (one.of !== undefined && kept?.hidden.has(of.series[one.of].name)) one.show = false;
  const frame = document.createElement("figure");
  frame.className = "holter live";
  const head = Object.assign(document.createElement("div"), { className: "chart-head" });
  head.append(Object.assign(document.createElement("h3"), { textContent: of.title }));
  if (smoothable(of)) head.append(slider(of, redraw));
  frame.append(head);
  const hidden = kept?.hidden ?? new Set();
  const listed = legend(of, hidden, (at, visible) => {
    for (const one of series.keys()) if (series[one].of === at) chart.setSeries(one, { show: visible });
  });
  const place = document.createElement("div");
  place.className = "plot";
  place.tabIndex = 0;
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `${of.title}: ${of.y_axis.label} over ${of.x_axis.label}`);
  frame.append(listed, place);
  if (of.note) frame.append(Object.assign(document.createElement("p"), { className: "note", textContent: of.note }));
  head.append(downloads(of, () => chart, () => hidden));
  element.replaceChildren(frame);
  const tip = new Tip(place, of, shown, hidden, page.marks);

  const toSeconds = (/** @type {number} */ x) => (shown === "step" ? page.clock.toTime(x) : x);
  /** @type {import("./vendor/uPlot.esm.js").Options} */
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: {
      drag: { x: shown !== null, y: false, setScale: alone },
      // Charts share the cursor, not what is dragged: the one that is dragged tells the page.
      ...(shown && !alone && { sync: { key: `holter-${shown}`, setSeries: false, filters: { pub: moves, sub: moves } } }),
      ...(!alone && { bind: { dblclick: () => () => (page.setRange(null), null) } }),
      points: { size: 5 },
    },
    scales: {
      x: { time: false, range: (_, low, high) => extent(shown, page) ?? around(of, low, high) },
      y: {
        distr: of.y_axis.log ? 3 : of.y_axis.linear ? 4 : 1,
        asinh: of.y_axis.linear ?? 1,
        range: (_, low, high) => (of.y_axis.log ? around10(low, high) : reach(of, low, high)),
      },
    },
    axes: axes(of, shown, element),
    series: /** @type {import("./vendor/uPlot.esm.js").Series[]} */ (series),
    bands,
    hooks: {
      setSelect: [
        (one) => {
          if (alone || one.select.width < 3) return;
          const [from, to] = [one.select.left, one.select.left + one.select.width].map((px) => toSeconds(one.posToVal(px, "x")));
          one.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          page.setRange({ from, to });
        },
      ],
      draw: [(one) => hatch(one, broken, of.flag ?? "", ink(element, "broken")), (one) => page.marks.draw(one, shown, element)],
      setCursor: [(one) => tip.show(one)],
    },
  };
  const chart = new uPlot(options, /** @type {any} */ (data), place);
  place.addEventListener("keydown", (event) => walk(event, chart));
  if (kept?.zoom) chart.setScale("x", kept.zoom);
  const parts = [place, .../** @type {NodeListOf<HTMLElement>} */ (frame.querySelectorAll(".legend button, .smoothing input"))];
  parts[kept?.focus ?? -1]?.focus({ preventScroll: true });
  if (kept?.cursor) chart.setCursor(kept.cursor, false);
  if (kept?.cursor) tip.show(chart);
  return {
    /** @returns {Kept} */
    state: () => ({ hidden, cursor: held(chart), focus: parts.findIndex((one) => one === document.activeElement), zoom: alone ? zoomed(chart) : null }),
    destroy: () => chart.destroy(),
    resize: () => chart.setSize({ width: place.clientWidth, height: HEIGHT }),
  };
}

/**
 * The positions of a figure's values on the axis that is shown.
 * @param {Figure} of
 * @param {AxisName | null} own
 * @param {AxisName | null} shown
 * @param {Page} page
 */
function turned(of, own, shown, page) {
  const x = /** @type {number[]} */ (of.x);
  if (own === shown) return x;
  return shown === "time" ? x.map((one) => page.clock.toTime(one)) : x.map((one) => page.clock.toStep(one));
}

/**
 * The window on the axis that is shown: the same on all charts.
 * @param {AxisName | null} shown
 * @param {Page} page
 * @returns {[number, number] | null}
 */
function extent(shown, page) {
  const { from, to } = page.shown;
  if (shown === null || to <= from) return null;
  if (shown === "time") return [from, to];
  const { step, known } = page.clock;
  if (!known) return null;
  return page.range ? [page.clock.toStep(from), page.clock.toStep(to)] : [step[0], step[step.length - 1]];
}

/**
 * The whole of a figure that goes by neither time nor steps; bars have a width.
 * @param {Figure} of
 * @param {number} low
 * @param {number} high
 * @returns {[number, number]}
 */
function around(of, low, high) {
  if (few(of)) return [low - 0.6, high + 0.6];
  return [low, high > low ? high : low + 1];
}

/** What of the mouse other charts follow. @param {string} kind */
const moves = (kind) => kind === "mousemove" || kind === "mouseleave";

/**
 * From where to where the y axis goes: from zero, but a curve that lives far from zero is shown by what it does.
 * @param {Figure} of
 * @param {number | null} low
 * @param {number | null} high
 * @returns {[number, number]}
 */
function reach(of, low, high) {
  if (of.y_axis.top !== null) return [0, of.y_axis.top];
  if (low === null || high === null) return [0, 1];
  if (of.kind === "lines" && low > 0.5 * high) return [low - 0.05 * (high - low || low), high + 0.05 * (high - low || low)];
  return [Math.min(0, low), high > 0 ? high * 1.05 : 1];
}

/** From where to where a logarithmic axis goes. @param {number | null} low @param {number | null} high @returns {[number, number]} */
function around10(low, high) {
  if (low === null || high === null) return [1, 10];
  return high > low ? [low / 1.15, high * 1.15] : [low / 2, low * 2];
}

/**
 * Hatch the stretches in which values are not finite; the first one says what they are.
 * @param {uPlot} chart @param {number[][]} stretches @param {string} flag @param {string} color
 */
function hatch({ ctx, bbox, valToPos }, stretches, flag, color) {
  const ratio = devicePixelRatio;
  const [left, right, bottom] = [bbox.left, bbox.left + bbox.width, bbox.top + bbox.height];
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = ctx.strokeStyle = color;
  ctx.lineWidth = ratio;
  stretches.forEach(([begin, end], at) => {
    const from = Math.max(valToPos(begin, "x", true), left);
    const to = Math.max(Math.min(valToPos(end, "x", true), right), from + 2 * ratio);
    if (from > right || to < left) return;
    ctx.globalAlpha = 0.1;
    ctx.fillRect(from, bbox.top, to - from, bbox.height);
    ctx.globalAlpha = 0.35;
    ctx.save();
    ctx.beginPath();
    ctx.rect(from, bbox.top, to - from, bbox.height);
    ctx.clip();
    ctx.beginPath();
    for (let x = from - bbox.height; x < to; x += 8 * ratio) {
      ctx.moveTo(x, bottom);
      ctx.lineTo(x + bbox.height, bbox.top);
    }
    ctx.stroke();
    ctx.restore();
    ctx.globalAlpha = 1;
    if (at > 0 || !flag) return;
    const late = from > (left + right) / 2;
    ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = late ? "right" : "left";
    ctx.fillText(flag, late ? from - 4 * ratio : from + 4 * ratio, bbox.top + 12 * ratio);
  });
  ctx.restore();
}

/** Where the cursor is, if it is on the chart. @param {uPlot} chart */
function held(chart) {
  const { left = -1, top = -1 } = chart.cursor;
  return left < 0 ? null : { left, top };
}

/** The part of the x axis that was zoomed into. @param {uPlot} chart */
function zoomed(chart) {
  const [x, { min, max }] = [chart.data[0], chart.scales.x];
  if (min == null || max == null || (min <= x[0] && max >= x[x.length - 1])) return null;
  return { min, max };
}

/** Move the cursor by keyboard. @param {KeyboardEvent} event @param {uPlot} chart */
function walk(event, chart) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const x = chart.data[0];
  const [low, high] = [chart.scales.x.min ?? 0, chart.scales.x.max ?? 0];
  const within = (/** @type {number} */ at) => x[at] >= low && x[at] <= high;
  let at = (chart.cursor.idx ?? -1) + by * (event.shiftKey ? 10 : 1);
  at = Math.min(Math.max(at, x.findIndex((_, one) => within(one))), x.length - 1);
  if (within(at)) chart.setCursor({ left: chart.valToPos(x[at], "x"), top: 10 });
}
