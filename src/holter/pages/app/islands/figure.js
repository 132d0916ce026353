// An interactive chart: values at the cursor; dragging selects the time window of all charts.

import { beside } from "../baseline.js";
import { figure } from "../figures.js";
import { note } from "../note.js";
import { dimension, plot } from "../plot.js";

/** @typedef {import("../page.js").Page} Page */
/** @typedef {import("../figures.js").Figure} Figure */

const LATER_MS = 1500;
const STEP_PX = 100; // widths are rounded, so that many browsers ask for the same

/**
 * @param {HTMLElement} element
 * @param {Page} page
 */
export function mount(element, page) {
  /** @type {ReturnType<typeof plot> | null} */
  let drawn = null;
  /** @type {Figure | null} */
  let last = null;
  let seen = false;
  let late = true; // what is drawn is not what is asked for now
  let turn = 0;
  let dragged = false;
  let waits = false;
  const down = () => void (dragged = true);
  const up = () => {
    dragged = false;
    if (waits) setTimeout(draw);
    waits = false;
  };
  element.addEventListener("mousedown", down);
  addEventListener("mouseup", up);

  async function load() {
    if (!seen || !element.clientWidth) return void (late = true);
    late = false;
    element.dataset.state = "loading";
    const mine = ++turn;
    try {
      const [name, params] = [/** @type {string} */ (element.dataset.figure), asked()];
      const told = await beside(page, name, await figure(page, name, params), params);
      if (mine !== turn || !element.isConnected) return;
      last = told;
      await draw();
      if (mine === turn) element.dataset.state = "ready";
      element.classList.remove("failed");
      element.removeAttribute("title");
    } catch (error) {
      if (mine !== turn) return;
      late = true; // what was there stays; the next word from the server tries again
      element.classList.add("failed");
      element.dataset.state = "failed";
      element.title = `could not be brought up to date: ${error instanceof Error ? error.message : error}`;
    }
  }

  /** Whether the chart's own axis is another than the one the page goes by. */
  const turned = () => !page.compared && dimension(last) !== null && dimension(last) !== page.axis;

  function asked() {
    const width = Math.max(STEP_PX, Math.round(element.clientWidth / STEP_PX) * STEP_PX);
    const { node, devices, options } = element.dataset;
    const own = Object.fromEntries(new URLSearchParams(options ?? ""));
    return { width, from: page.range?.from, to: page.range?.to, node, devices: devices || null, ...own };
  }

  async function draw() {
    if (!last) return;
    if (turned()) await page.clock.load();
    if (dimension(last) !== null) await Promise.all([page.marks.load(), page.axis === "step" && page.clock.load()]);
    if (dragged) return void (waits = true); // nothing is taken from under a hand
    const height = element.offsetHeight; // kept while there is nothing in it, so that nothing jumps
    element.style.minHeight = `${height}px`;
    const kept = drawn?.state();
    drawn?.destroy();
    drawn = null;
    if (last.missing !== undefined) {
      element.replaceChildren(note(last.missing));
    } else if (last.html !== undefined) {
      // Drawn by our own server, which escapes what comes from a job.
      element.innerHTML = last.html;
    } else drawn = plot(element, last, page, kept, () => void draw());
    element.style.minHeight = "";
  }

  const sight = new IntersectionObserver(
    ([entry]) => {
      seen = entry.isIntersecting;
      if (seen && late) load();
    },
    { rootMargin: "200px" },
  );
  sight.observe(element);
  // Charts below the fold are drawn too, because the page may be printed.
  if (!element.firstElementChild || element.querySelector(".later")) setTimeout(() => ((seen = true), late && load()), LATER_MS);
  let width = element.clientWidth;
  const size = new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - width) < 2) return;
    width = element.clientWidth;
    drawn?.resize();
  });
  size.observe(element);
  // Which devices and which node is said in attributes; others change them.
  const told = new MutationObserver(load);
  told.observe(element, { attributeFilter: ["data-devices", "data-node"] });
  const off = [page.on("range", load), page.on("axis", draw), page.on("theme", draw)];
  return {
    update: load,
    destroy() {
      sight.disconnect();
      size.disconnect();
      told.disconnect();
      removeEventListener("mouseup", up);
      for (const end of off) end();
      drawn?.destroy();
    },
  };
}
