// Paints a heat map: coarse cells below fine cells, the names of the rows, and the axis.

import { ticks } from "../canvas/time.js";
import { LABEL } from "./layout.js";

/**
 * @typedef {import("../canvas/surface.js").Surface} Surface
 * @typedef {import("../canvas/extent.js").Extent} Extent
 * @typedef {import("../canvas/colors.js").Theme} Theme
 * @typedef {import("./cells.js").Cells} Cells
 * @typedef {import("./cells.js").What} What
 * @typedef {import("./layout.js").Layout} Layout
 *
 * @typedef {object} Scene
 * @property {Layout} layout
 * @property {Extent} extent
 * @property {Theme} theme
 * @property {Cells[]} held coarse ones first
 * @property {What} what
 * @property {{from: number, to: number} | null} brush
 * @property {{row: number, time: number} | null} cursor
 */

/** @param {Surface} surface @param {Scene} scene */
export function paint(surface, scene) {
  const { context, width, height } = surface;
  const { layout, extent, theme } = scene;
  const room = Math.max(1, width - layout.left);
  /** @param {number} time */
  const x = (time) => layout.left + ((time - extent.from) / extent.span) * room;

  context.fillStyle = theme.background.css;
  context.fillRect(0, 0, width, height);
  context.imageSmoothingEnabled = false;
  for (const group of layout.groups()) {
    const [top, high] = [layout.tops[group.first], group.count * layout.high];
    gap(surface, theme, layout.left, top, room, high);
    for (const cells of scene.held) {
      const first = Math.max(0, Math.floor((extent.from - cells.from) / cells.step));
      const last = Math.min(cells.columns, Math.ceil((extent.to - cells.from) / cells.step));
      if (last <= first) continue;
      const [left, right] = [x(cells.from + first * cells.step), x(cells.from + last * cells.step)];
      const picture = cells.picture(scene.what);
      context.save();
      context.beginPath();
      context.rect(layout.left, top, room, high);
      context.clip();
      context.drawImage(picture, first, group.first, last - first, group.count, left, top, right - left, high);
      context.restore();
    }
  }
  names(surface, scene);
  axis(surface, scene, x);
  marks(surface, scene, x);
}

/** Hatching says that nothing is known. @type {{key: string, pattern: CanvasPattern | null}} */
const hatching = { key: "", pattern: null };

/**
 * @param {Surface} surface @param {Theme} theme
 * @param {number} x @param {number} y @param {number} width @param {number} height
 */
export function gap(surface, theme, x, y, width, height) {
  const { context } = surface;
  const key = theme.line.css + theme.background.css;
  if (hatching.key !== key) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const brush = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
    brush.fillStyle = theme.background.css;
    brush.fillRect(0, 0, 6, 6);
    brush.strokeStyle = theme.line.css;
    brush.beginPath();
    for (const at of [-3, 3, 9]) {
      brush.moveTo(at - 3, 6);
      brush.lineTo(at + 3, 0);
    }
    brush.stroke();
    Object.assign(hatching, { key, pattern: context.createPattern(tile, "repeat") });
  }
  context.fillStyle = hatching.pattern ?? theme.line.css;
  context.fillRect(x, y, width, height);
}

/** @param {Surface} surface @param {Scene} scene */
function names({ context }, { layout, theme, cursor }) {
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillStyle = theme.text.css;
  for (const { node, top } of layout.headings) context.fillText(node, 4, top + 9, layout.left * 3);
  context.textAlign = "right";
  const middle = (/** @type {number} */ at) => Math.max(layout.tops[at] + layout.high / 2, 6);
  const write = (/** @type {number} */ at, /** @type {string} */ color) => {
    context.fillStyle = color;
    context.fillText(layout.rows[at].name, layout.left - 6, middle(at), layout.left - 10);
  };
  // Names stand where there is room for them; the first of a kind of device comes before others of the kind above.
  const begins = layout.rows.flatMap((row, at) => (row.metric === layout.rows[at - 1]?.metric ? [] : [middle(at)]));
  const near = (/** @type {number} */ one, /** @type {number} */ other) => Math.abs(one - other) < LABEL;
  let last = -Infinity;
  layout.rows.forEach((_, at) => {
    const here = middle(at);
    const taken = near(here, last) || begins.some((one) => one > here && near(here, one));
    if (taken || (cursor && near(here, middle(cursor.row)))) return;
    last = here;
    write(at, theme.dim.css);
  });
  if (cursor) write(cursor.row, theme.accent.css);
}

/** @param {Surface} surface @param {Scene} scene @param {(time: number) => number} x */
function axis({ context, width }, { layout, extent, theme }, x) {
  context.fillStyle = theme.dim.css;
  context.strokeStyle = theme.line.css;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const { at, label } of ticks(extent.from, extent.to, (width - layout.left) / 90).ticks) {
    const place = Math.min(Math.max(x(at), layout.left + 14), width - 22);
    context.beginPath();
    context.moveTo(x(at), layout.bottom);
    context.lineTo(x(at), layout.bottom + 4);
    context.stroke();
    context.fillText(label, place, layout.bottom + 7);
  }
}

/** @param {Surface} surface @param {Scene} scene @param {(time: number) => number} x */
function marks({ context, width }, { layout, theme, brush, cursor, held }, x) {
  if (brush) {
    const [from, to] = [Math.max(layout.left, x(brush.from)), Math.min(width, x(brush.to))];
    context.fillStyle = theme.accent.css;
    context.globalAlpha = 0.25;
    context.fillRect(from, 0, to - from, layout.bottom);
    context.globalAlpha = 1;
    context.fillRect(from, 0, 1, layout.bottom);
    context.fillRect(to - 1, 0, 1, layout.bottom);
  }
  if (cursor && held.length) {
    const { step, from } = held[held.length - 1];
    const left = x(from + Math.floor((cursor.time - from) / step) * step);
    const wide = Math.max(3, x(step) - x(0));
    context.lineWidth = 2;
    context.strokeStyle = theme.alert.css;
    context.strokeRect(Math.max(left, layout.left), layout.tops[cursor.row], wide, layout.high);
    context.lineWidth = 1;
  }
}
