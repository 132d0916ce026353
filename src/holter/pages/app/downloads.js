// Saves a chart: its numbers as CSV, or what is drawn as PNG.

import { ink } from "./ink.js";
import uPlot from "./vendor/uPlot.esm.js";

/** @typedef {import("./figures.js").Figure} Figure */

const PAD = 12; // of a picture, in CSS pixels
const LINE = 18;
const FONT = "system-ui, sans-serif";

/**
 * The buttons of a chart.
 * @param {Figure} of
 * @param {() => uPlot} chart what is drawn now
 * @param {() => Set<string>} hidden names of the series that are not shown
 */
export function downloads(of, chart, hidden) {
  const element = Object.assign(document.createElement("span"), { className: "downloads" });
  const name = of.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "chart";
  const save = (/** @type {string} */ kind, /** @type {() => Promise<Blob | null>} */ make) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: kind, title: `save this chart as ${kind}` });
    button.setAttribute("aria-label", `save ${of.title} as ${kind}`);
    button.addEventListener("click", async () => {
      const made = await make();
      if (!made) return;
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(made), download: `${name}.${kind.toLowerCase()}` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    });
    element.append(button);
  };
  save("PNG", () => png(of, chart(), hidden()));
  save("CSV", async () => new Blob([csv(of)], { type: "text/csv;charset=utf-8" }));
  return element;
}

/** The numbers of a figure: a row for each position, a column for each series and for the ends of its band. @param {Figure} of */
export function csv(of) {
  const named = (/** @type {import("./figures.js").Axis} */ axis) => axis.label + (axis.unit ? ` (${axis.unit})` : "");
  const columns = [{ name: named(of.x_axis), values: /** @type {(number | string | null)[]} */ (of.x) }];
  for (const one of of.series) {
    columns.push({ name: one.name, values: one.values });
    if (one.low) columns.push({ name: `${one.name}, lowest`, values: one.low });
    if (one.high) columns.push({ name: `${one.name}, highest`, values: one.high });
  }
  // A bar of a histogram has two edges: the last edge has no value.
  const rows = of.x.map((_, at) => columns.map((one) => cell(one.values[at])).join(","));
  return [columns.map((one) => cell(one.name)).join(","), ...rows, ""].join("\r\n");
}

/** @param {number | string | null | undefined} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  // A spreadsheet must not take a name of the job for a formula.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** The chart with its title and legend on the color of its card. @param {Figure} of @param {uPlot} chart @param {Set<string>} hidden */
function png(of, chart, hidden) {
  const drawn = chart.ctx.canvas;
  const ratio = devicePixelRatio;
  const shown = of.series.filter((one) => !hidden.has(one.name));
  const canvas = document.createElement("canvas");
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const width = drawn.width / ratio;
  const patch = `12px ${FONT}`;
  ctx.font = patch;
  /** @type {{x: number, y: number, name: string, color: string}[]} */
  const places = [];
  let [x, y] = [0, 0];
  for (const one of shown) {
    const name = one.name.length > 60 ? `${one.name.slice(0, 59)}…` : one.name;
    const needed = 18 + ctx.measureText(name).width + 14;
    if (x && x + needed > width) [x, y] = [0, y + LINE];
    places.push({ x, y, name, color: ink(chart.root, one.color) });
    x += needed;
  }
  const top = PAD + LINE + y + LINE + 6;
  [canvas.width, canvas.height] = [Math.round((width + 2 * PAD) * ratio), Math.round((top + PAD) * ratio + drawn.height)];
  ctx.scale(ratio, ratio);
  ctx.fillStyle = background(chart.root);
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.textBaseline = "middle";
  ctx.fillStyle = getComputedStyle(chart.root).color;
  ctx.font = `600 14px ${FONT}`;
  ctx.fillText(of.title, PAD, PAD + LINE / 2, width);
  ctx.font = patch;
  for (const one of places) {
    const at = PAD + LINE + one.y + LINE / 2;
    ctx.fillStyle = one.color;
    ctx.fillRect(PAD + one.x, at - 5, 12, 10);
    ctx.fillStyle = getComputedStyle(chart.root).color;
    ctx.fillText(one.name, PAD + one.x + 18, at);
  }
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.drawImage(drawn, Math.round(PAD * ratio), Math.round(top * ratio));
  return new Promise((/** @type {(made: Blob | null) => void} */ done) => canvas.toBlob(done, "image/png"));
}

/** The first opaque color behind an element. @param {HTMLElement} element */
function background(element) {
  for (let one = /** @type {HTMLElement | null} */ (element); one; one = one.parentElement) {
    const color = getComputedStyle(one).backgroundColor;
    if (color && color !== "transparent" && !color.endsWith(", 0)")) return color;
  }
  return "#fff";
}
