// The strip of the whole job: what its time went into, or how busy the machine was. A drag on it chooses the
// time window of the page; a double click shows the whole job.

import { figure } from "../figures.js";

/** @typedef {import("../page.js").Page} Page */
/** @typedef {import("../figures.js").Figure} Figure */

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 100;
const CLICK_PX = 3;

/**
 * @param {HTMLElement} element
 * @param {Page} page
 */
export function mount(element, page) {
  element.classList.add("strip-of-job");
  element.hidden = true;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "the whole job; drag to choose a time window, or use the keys w, s, a and d");
  const chosen = Object.assign(document.createElement("div"), { className: "chosen" });
  element.replaceChildren(svg, chosen);
  let seconds = 0;

  async function load() {
    try {
      const params = { width: WIDTH };
      // A report file lacks what it could not draw.
      const asked = ["phases_over_time", "utilization"].map((name) => figure(page, name, params).catch(() => null));
      const found = (await Promise.all(asked)).find(usable) ?? null;
      element.hidden = found === null || !page.seconds;
      seconds = page.seconds;
      if (found) draw(found);
      mark();
    } catch {
      // What was there stays; the next change of the job tries again.
    }
  }

  /** @param {Figure | null} told */
  const usable = (told) => told !== null && told.missing === undefined && told.html === undefined && told.series.length > 0;

  /** @param {Figure} told */
  function draw(told) {
    const x = told.x.map((one) => (Number(one) / (seconds || 1)) * WIDTH);
    const below = x.map(() => 0);
    const paths = told.series.slice(0, 12).map((series) => {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", told.kind === "stacked" ? area(x, series.values, below) : line(x, series.values));
      path.setAttribute("class", `${told.kind === "stacked" ? "area" : "line"} ${series.color}`);
      return path;
    });
    svg.replaceChildren(...paths);
  }

  function mark() {
    const { range } = page;
    chosen.hidden = range === null;
    if (!range || !seconds) return;
    const left = Math.max(0, Math.min(100, (100 * range.from) / seconds));
    const right = Math.max(0, Math.min(100, (100 * range.to) / seconds));
    chosen.style.left = `${left}%`;
    chosen.style.width = `${Math.max(right - left, 0.3)}%`;
  }

  /** @type {number | null} */
  let began = null;
  /** @param {PointerEvent} event */
  const at = (event) => {
    const box = element.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * seconds;
  };
  /** @param {PointerEvent} event */
  const down = (event) => {
    if (event.button) return;
    began = at(event);
    element.setPointerCapture(event.pointerId);
  };
  /** @param {PointerEvent} event */
  const up = (event) => {
    if (began === null) return;
    const [from, to] = [began, at(event)].sort((one, other) => one - other);
    began = null;
    if (((to - from) / (seconds || 1)) * element.clientWidth > CLICK_PX) page.setRange({ from, to });
  };
  /** @param {PointerEvent} event */
  const move = (event) => {
    if (began === null) return;
    const [from, to] = [began, at(event)].sort((one, other) => one - other);
    chosen.hidden = false;
    chosen.style.left = `${(100 * from) / (seconds || 1)}%`;
    chosen.style.width = `${(100 * (to - from)) / (seconds || 1)}%`;
  };
  const whole = () => page.setRange(null);
  element.addEventListener("pointerdown", down);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", up);
  element.addEventListener("dblclick", whole);
  const off = page.on("range", mark);
  load();
  return { update: load, destroy: off };
}

/** A line through known values. @param {number[]} x @param {(number | null)[]} values */
function line(x, values) {
  let path = "";
  let pen = "M";
  values.forEach((value, at) => {
    if (value === null) return void (pen = "M");
    path += `${pen}${x[at].toFixed(1)} ${(HEIGHT - Math.min(value, 100)).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

/** An area on top of others, whose heights it adds to. @param {number[]} x @param {(number | null)[]} values @param {number[]} below */
function area(x, values, below) {
  const up = x.map((one, at) => `${one.toFixed(1)} ${(HEIGHT - below[at]).toFixed(1)}`).reverse();
  values.forEach((value, at) => (below[at] = Math.min(HEIGHT, below[at] + (value ?? 0))));
  const over = x.map((one, at) => `${one.toFixed(1)} ${(HEIGHT - below[at]).toFixed(1)}`);
  return `M${over.join("L")}L${up.join("L")}Z`;
}
