// Marks moments of the job on the axis of each chart over time or steps: findings, checkpoints, epochs, windows.

import { ink } from "./ink.js";

/** @typedef {import("./page.js").Page} Page */
/** @typedef {import("./page.js").AxisName} AxisName */
/** @typedef {import("./vendor/uPlot.esm.js")} uPlot */
/** @typedef {{kind: string, begin: number, end: number, text: string}} Mark seconds since the start of the job */

const HEIGHT = 5; // of the rail, CSS pixels
const NEAR = 4; // how far from a mark the cursor finds it
const COLORS = { finding: "mark-finding", nonfinite: "mark-finding", checkpoint: "p-checkpoint", epoch: "ink-dim", window: "c0" };

export class Marks {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    /** @type {Mark[]} */
    this.all = [];
    this.asked = -1;
    /** @type {Promise<void>} */
    this.ready = Promise.resolve();
  }

  /** Ask for them; of a running job again when it has grown. */
  load() {
    const { seconds, job, compared } = this.page;
    if (job === null || compared !== null || seconds === this.asked) return this.ready;
    this.asked = seconds;
    this.ready = this.page.ask("marks").then(
      ({ marks }) => void (this.all = marks),
      () => void (this.all = []), // charts are whole without them
    );
    return this.ready;
  }

  /** Draw the rail at the top of a chart. @param {uPlot} chart @param {AxisName | null} shown @param {HTMLElement} element */
  draw(chart, shown, element) {
    if (shown === null || !this.all.length) return;
    const { ctx, bbox } = chart;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - HEIGHT * ratio, bbox.width, bbox.height + HEIGHT * ratio);
    ctx.clip();
    for (const one of this.all) {
      const [from, to] = this.ends(one, shown).map((at) => chart.valToPos(at, "x", true));
      ctx.fillStyle = ink(element, COLORS[/** @type {keyof typeof COLORS} */ (one.kind)] ?? "ink-dim");
      ctx.fillRect(from - ratio, bbox.top - HEIGHT * ratio, Math.max(to - from, 2 * ratio), HEIGHT * ratio);
      if (one.kind === "epoch") ctx.globalAlpha = 0.25;
      else if (one.kind !== "nonfinite") continue;
      ctx.fillRect(from - ratio / 2, bbox.top, ratio, bbox.height);
      ctx.globalAlpha = 1;
    }
    ctx.restore();
  }

  /** What is marked at the cursor. @param {uPlot} chart @param {AxisName | null} shown @returns {string[]} */
  at(chart, shown) {
    const { left = -1 } = chart.cursor;
    if (shown === null || left < 0) return [];
    const found = this.all.filter((one) => {
      const [from, to] = this.ends(one, shown).map((at) => chart.valToPos(at, "x"));
      return from - NEAR <= left && left <= to + NEAR;
    });
    return [...new Set(found.map((one) => one.text))].slice(0, 4);
  }

  /** @param {Mark} one @param {AxisName} shown */
  ends({ begin, end }, shown) {
    const { clock } = this.page;
    return shown === "step" ? [clock.toStep(begin), clock.toStep(end)] : [begin, end];
  }
}
