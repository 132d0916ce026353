// The small curve of a tile: the course of one number over the whole job.

import { figure } from "../figures.js";

/** @typedef {import("../page.js").Page} Page */

const SVG = "http://www.w3.org/2000/svg";
const POINTS = 60;
const WIDTH = 120;
const HEIGHT = 28;

/**
 * @param {HTMLElement} element
 * @param {Page} page
 */
export function mount(element, page) {
  async function load() {
    try {
      const told = await figure(page, element.dataset.course ?? "", { width: POINTS });
      const series = told.missing === undefined ? told.series?.find((one) => one.name.startsWith(element.dataset.begins ?? "")) : undefined;
      const path = series && course(series.values);
      if (path) element.replaceChildren(drawing(path, element.dataset.label ?? ""));
    } catch {
      // What was there stays.
    }
  }
  if (!element.firstElementChild) load();
  return { update: load };
}

/** The same as `holter.drawing.sparkline` draws. @param {(number | null)[]} values */
function course(values) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  if (known.length < 2 || low === high) return "";
  const across = (WIDTH - 2) / (values.length - 1);
  let [path, pen] = ["", "M"];
  values.forEach((value, at) => {
    if (value === null) return void (pen = "M");
    const y = 1 + (HEIGHT - 2) * (1 - (value - low) / (high - low));
    path += `${pen}${(1 + at * across).toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
  });
  return path;
}

/** @param {string} path @param {string} label */
function drawing(path, label) {
  const svg = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "path");
  const looks = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: "spark" };
  for (const [name, value] of Object.entries(looks)) svg.setAttribute(name, value);
  for (const [name, value] of Object.entries({ d: path, fill: "none", stroke: "currentColor", "vector-effect": "non-scaling-stroke" })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}
