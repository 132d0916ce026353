// Paints a timeline: steps and time on top, lanes as pixels, names, curves, the selection and arrows.

import { lasting, moment, ticks } from "../canvas/time.js";
import { Inks, Raster, busy } from "./raster.js";
import { LINE } from "./rows.js";

/**
 * @typedef {import("../canvas/surface.js").Surface} Surface
 * @typedef {import("../canvas/extent.js").Extent} Extent
 * @typedef {import("../canvas/colors.js").Theme} Theme
 * @typedef {import("./rows.js").Row} Row
 * @typedef {import("./rows.js").Rows} Rows
 * @typedef {import("./tiles.js").Tiles} Tiles
 * @typedef {import("./curves.js").Curves} Curves
 * @typedef {import("./picking.js").Picked} Picked
 * @typedef {Picked & {kind: string, earlier: boolean}} Arrow
 *
 * @typedef {object} Scene
 * @property {Extent} extent
 * @property {Rows} rows
 * @property {Tiles} tiles
 * @property {Curves} curves
 * @property {Theme} theme
 * @property {number} scroll
 * @property {{step: number, time: number, duration: number}[]} steps
 * @property {Picked | null} selected
 * @property {Arrow[]} arrows
 * @property {{from: number, to: number} | null} measured
 * @property {number | null} hover time under the hand
 * @property {ReadonlySet<number> | null} chosen codes of names that were searched for
 */

export const TOP = 40;

export class Painter {
  /** @param {Theme} theme */
  constructor(theme) {
    this.raster = new Raster();
    this.inks = new Inks(theme);
  }

  /** @param {Surface} surface @param {Scene} scene */
  paint(surface, scene) {
    const { context, width, height, ratio } = surface;
    const { theme, extent, rows, scroll } = scene;
    if (this.inks.theme !== theme) this.inks = new Inks(theme);
    const seen = rows.between(scroll, scroll + height - TOP);
    this.blocks(surface, scene, seen);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(this.raster.image, 0, Math.round(TOP * ratio));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    /** @param {number} time */
    const x = (time) => ((time - extent.from) / extent.span) * width;
    context.save();
    context.beginPath();
    context.rect(0, TOP, width, height - TOP);
    context.clip();
    context.translate(0, TOP - scroll);
    this.names(surface);
    for (const row of seen) if (row.entry.series !== undefined) this.curve(surface, scene, row, x);
    this.selection(surface, scene, x);
    context.restore();
    this.axis(surface, scene, x);
    this.measure(surface, scene, x);
  }

  /** @param {Surface} surface @param {Scene} scene @param {Row[]} seen */
  blocks({ width, height, ratio }, { extent, tiles, theme, scroll, chosen }, seen) {
    const { raster, inks } = this;
    const { from, to } = extent;
    raster.begin(Math.round(width * ratio), Math.max(1, Math.round((height - TOP) * ratio)), theme.background.packed);
    for (const row of seen) {
      const top = (row.top - scroll) * ratio;
      raster.line.fill(theme.line.packed);
      raster.spread(Math.round(top + row.height * ratio) - 1, Math.round(top + row.height * ratio));
      if (row.entry.lane !== undefined) {
        const held = tiles.held(from, to, width, row.entry.lane);
        for (let line = 0; line < row.lines; line++) {
          const [high, low] = [Math.round(top + (line * LINE + 2) * ratio), Math.round(top + (line * LINE + LINE + 1) * ratio)];
          if (low < 0 || high > raster.image.height) continue;
          raster.line.fill(theme.background.packed);
          for (const piece of held) {
            const range = { from, to, low: Math.max(from, piece.from), high: Math.min(to, piece.to) };
            if (piece.tile) {
              raster.put(piece.tile, line, row.entry.kind, range, { inks, ratio, y: row.top + line * LINE + LINE / 2 + 2, chosen });
            } else if (line === 0) this.unknown(range, theme.card.packed);
          }
          raster.spread(high, low);
        }
      } else if (row.streams.length) {
        const held = row.streams.map((lane) => tiles.held(from, to, width, lane));
        this.work(busy(held, from, to, raster.width), top, row.height * ratio, theme);
      }
    }
  }

  /** What has not come yet is not empty. @param {{from: number, to: number, low: number, high: number}} range @param {number} ink */
  unknown({ from, to, low, high }, ink) {
    const scale = this.raster.width / (to - from);
    this.raster.line.fill(ink, Math.max(0, Math.floor((low - from) * scale)), Math.ceil((high - from) * scale));
  }

  /** How busy a device was, as an area. @param {Float32Array} share @param {number} top @param {number} height @param {Theme} theme */
  work(share, top, height, theme) {
    const { image, pixels } = this.raster;
    const [ink, blank] = [theme.palette[0].packed, theme.card.packed];
    const [first, last] = [Math.round(top) + 2, Math.round(top + height) - 1];
    for (let y = Math.max(0, first); y < Math.min(last, image.height); y++) {
      const level = (last - y - 0.5) / (last - first);
      for (let x = 0, at = y * image.width; x < share.length; x++, at++) {
        if (share[x] < 0) pixels[at] = blank;
        else if (share[x] >= level) pixels[at] = ink;
      }
    }
  }

  /** @param {Surface} surface */
  names({ context }) {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const { text, x, y, width, ink } of this.raster.labels) {
      context.fillStyle = ink;
      context.fillText(text, x, y, width - 4);
    }
  }

  /** @param {Surface} surface @param {Scene} scene @param {Row} row @param {(time: number) => number} x */
  curve({ context, width }, { curves, theme, extent }, row, x) {
    const curve = curves.held.get(/** @type {number} */ (row.entry.series));
    if (!curve) return;
    const top = curve.most;
    const y = (/** @type {number} */ value) => row.top + row.height - 3 - Math.min(1, Math.max(0, value / top)) * (row.height - 6);
    context.fillStyle = context.strokeStyle = theme.palette[row.entry.kind === "counter" ? 2 : 0].css;
    context.globalAlpha = 0.3;
    context.beginPath(); // filled at once: between rectangles that are filled one by one there are seams
    curve.time.forEach((time, at) => {
      // A counter has its value until the next one; a reading stands for its moment, and a long gap stays one.
      const next = curve.time[at + 1] ?? (curve.holds ? extent.to : time + curve.every);
      const until = curve.holds ? next : Math.min(next, time + 2.5 * curve.every);
      const [left, right] = [Math.max(0, x(time)), Math.min(width, x(until))];
      if (right < 0 || left > width) return;
      context.rect(left, y(curve.high[at]), Math.max(right - left, 0.5), row.top + row.height - 3 - y(curve.high[at]));
    });
    context.fill();
    context.globalAlpha = 1;
    curve.time.forEach((time, at) => {
      const next = curve.time[at + 1] ?? (curve.holds ? extent.to : time + curve.every);
      const until = curve.holds ? next : Math.min(next, time + 2.5 * curve.every);
      const [left, right] = [Math.max(0, x(time)), Math.min(width, x(until))];
      if (right >= 0 && left <= width) context.fillRect(left, y(curve.mean[at]) - 0.75, Math.max(right - left, 1), 1.5);
    });
    context.font = "10px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "top";
    const wide = context.measureText(curve.label).width;
    context.globalAlpha = 0.8;
    context.fillStyle = theme.background.css;
    context.fillRect(width - 7 - wide, row.top + 1, wide + 6, 12);
    context.globalAlpha = 1;
    context.fillStyle = theme.dim.css;
    context.fillText(curve.label, width - 4, row.top + 2);
  }

  /** @param {Surface} surface @param {Scene} scene @param {(time: number) => number} x */
  selection({ context, width }, { selected, arrows, rows, theme }, x) {
    if (!selected) return;
    /** @param {number} lane @param {number} depth @returns {number | null} */
    const line = (lane, depth) => {
      const row = rows.list.find(({ entry }) => entry.lane === lane);
      return row ? row.top + Math.min(depth, row.lines - 1) * LINE + 2 : null;
    };
    const top = line(selected.lane, selected.depth);
    if (top === null) return;
    /** @param {{time: number, duration: number}} event @param {number} y @param {string} ink @param {number} thick */
    const outline = (event, y, ink, thick) => {
      const [left, right] = [Math.max(-4, x(event.time)), Math.min(width + 4, x(event.time + event.duration))];
      context.lineWidth = thick;
      context.strokeStyle = ink;
      context.strokeRect(left - 1, y - 1, Math.max(3, right - left) + 1, LINE + 1);
    };
    context.lineWidth = 1.5;
    for (const arrow of arrows) {
      const other = line(arrow.lane, arrow.depth);
      if (other === null) continue;
      outline(arrow, other, theme.accent.css, 1.5);
      const [one, two] = arrow.earlier ? [arrow, selected] : [selected, arrow];
      const [begin, end] = arrow.earlier ? [other, top] : [top, other];
      const [from, to] = [x(one.time), x(two.time)];
      const [start, stop] = [begin + LINE / 2, end + LINE / 2];
      const bend = Math.max(24, Math.min(120, Math.abs(to - from) / 2));
      context.beginPath();
      context.moveTo(from, start);
      context.bezierCurveTo(from + bend, start, to - bend, stop, to, stop);
      context.stroke();
      context.fillStyle = theme.accent.css;
      context.beginPath();
      context.moveTo(to, stop);
      context.lineTo(to - 8, stop - 4);
      context.lineTo(to - 8, stop + 4);
      context.fill();
    }
    outline(selected, top, theme.text.css, 2.5);
    context.lineWidth = 1;
  }

  /** @param {Surface} surface @param {Scene} scene @param {(time: number) => number} x */
  axis({ context, width }, { extent, theme, steps, hover }, x) {
    context.fillStyle = theme.card.css;
    context.fillRect(0, 0, width, TOP);
    context.fillStyle = theme.line.css;
    context.fillRect(0, TOP - 1, width, 1);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    const { ticks: marks, base } = ticks(extent.from, extent.to, width / 100);
    for (const { at, label } of marks) {
      context.fillStyle = theme.line.css;
      context.fillRect(x(at), 0, 1, 20);
      context.fillStyle = theme.dim.css;
      if (x(at) + 4 + context.measureText(label).width < width) context.fillText(label, x(at) + 4, 10);
    }
    if (base) {
      const wide = context.measureText(base).width + 10;
      context.fillStyle = theme.card.css;
      context.fillRect(0, 0, wide, 20);
      context.fillStyle = theme.text.css;
      context.fillText(base, 4, 10);
    }
    let free = -Infinity;
    for (const { step, time, duration } of steps) {
      const [left, right] = [x(time), x(time + duration)];
      if (right < 0 || left > width) continue;
      const text = `step ${step.toLocaleString("en")}`;
      const at = Math.max(left, 0) + 4;
      const wide = context.measureText(text).width + 10;
      const named = at >= free && (left >= 0 || right - at >= wide);
      context.fillStyle = theme.dim.css;
      context.fillRect(left, named ? 21 : TOP - 5, 1, named ? TOP - 22 : 4);
      if (!named) continue;
      context.fillText(text, at, 28);
      free = at + wide;
    }
    if (hover !== null) {
      const text = moment(hover, extent.span);
      const wide = context.measureText(text).width + 8;
      const at = Math.min(Math.max(0, x(hover) - wide / 2), width - wide);
      context.fillStyle = theme.text.css;
      context.fillRect(at, 1, wide, 18);
      context.fillStyle = theme.background.css;
      context.fillText(text, at + 4, 10);
    }
  }

  /** @param {Surface} surface @param {Scene} scene @param {(time: number) => number} x */
  measure({ context, width, height }, { measured, theme, hover }, x) {
    if (hover !== null) {
      context.fillStyle = theme.dim.css;
      context.fillRect(Math.round(x(hover)), TOP, 1, height - TOP);
    }
    if (!measured) return;
    const [left, right] = [Math.max(0, x(measured.from)), Math.min(width, x(measured.to))];
    if (right < 0 || left > width) return;
    context.fillStyle = theme.accent.css;
    context.globalAlpha = 0.16;
    context.fillRect(left, TOP, right - left, height - TOP);
    context.globalAlpha = 1;
    context.fillRect(left, TOP, 1, height - TOP);
    context.fillRect(right - 1, TOP, 1, height - TOP);
    const text = lasting(measured.to - measured.from);
    context.textAlign = "center";
    const wide = context.measureText(text).width + 12;
    const at = Math.min(Math.max(wide / 2, (left + right) / 2), width - wide / 2);
    context.fillRect(at - wide / 2, TOP + 4, wide, 18);
    context.fillStyle = theme.background.css;
    context.fillText(text, at, TOP + 13);
    context.textAlign = "left";
  }
}
