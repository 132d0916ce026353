// The pages of a job in one file without a server: the file holds the data of the islands and shows one page at a time.

import { mount as chips } from "./islands/chips.js";
import { mount as figure } from "./islands/figure.js";
import { mount as flame } from "./islands/flame.js";
import { mount as heatmap } from "./islands/heatmap.js";
import { mount as strip } from "./islands/strip.js";
import { mount as table } from "./islands/table.js";
import { mount as timeline } from "./islands/timeline.js";
import { Page, reachable } from "./page.js";
import { head } from "./header.js";
import { bar } from "./window.js";

/** @typedef {Record<string, string | number | null | undefined>} Params */

/** @type {Record<string, {mount: (element: HTMLElement, page: any) => any}>} */
const ISLANDS = Object.fromEntries(Object.entries({ chips, figure, flame, heatmap, strip, table, timeline }).map(([name, mount]) => [name, { mount }]));
/** What an answer of the file does not depend on: it is of the whole job, as fine as there is room for. */
const ANY = new Set(["store", "names", "html", "from", "to", "width", "from_ns", "to_ns", "pixels", "lanes", "series", "most"]);
const SAID = "Charts over time show this window; histograms, rings, tables and texts cover the whole job.";

export class Alone extends Page {
  constructor() {
    super();
    this.sheets = /** @type {HTMLElement[]} */ ([...this.main.querySelectorAll("section.sheet")]);
    /** @type {Map<string, Promise<any>>} figures, by their questions */
    this.known = new Map();
    this.pages = new Map([...document.querySelectorAll("script[data-ask]")].map((one) => [one.getAttribute("data-ask") ?? "", one]));
    document.documentElement.classList.add("alone");
    addEventListener("popstate", () => this.turn());
    this.on("range", () => this.say());
    this.turn();
  }

  /** @override */
  get alone() {
    return true;
  }

  /** Show the page that the address names. */
  turn() {
    const name = parts()[0];
    const shown = this.sheets.find((one) => one.id === name) ?? this.sheets[0];
    for (const sheet of this.sheets) sheet.classList.toggle("shown", sheet === shown);
    for (const link of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("a[data-page]"))) {
      if (link.dataset.page === shown.id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    scrollTo(0, 0);
    reachable(); // what was hidden had no size
    this.say();
  }

  say() {
    const state = document.getElementById("state");
    if (state) state.textContent = this.range ? SAID : "";
  }

  /** @override @param {string} path @param {Params} [params] */
  async ask(path, params = {}) {
    if (path !== "figures") return super.ask(path, params);
    const names = String(params.names).split(",");
    const told = await Promise.all(names.map((name) => this.figure(name, params)));
    return { figures: Object.fromEntries(names.map((name, at) => [name, told[at]])) };
  }

  /** @param {string} name @param {Params} params @returns {Promise<any>} */
  figure(name, params) {
    if (params.devices && params.devices !== "*") return this.marked(name, params);
    const key = question(`figures/${name}`, params);
    const told = this.known.get(key) ?? super.ask(`figures/${name}`, params);
    this.known.set(key, told);
    return told;
  }

  /**
   * A chart of the devices that are marked: the file has all of them.
   * @param {string} name @param {Params} params @returns {Promise<any>}
   */
  async marked(name, params) {
    const every = await this.figure(name, { ...params, devices: "*" });
    const wanted = new Set(String(params.devices).split(","));
    const [mean, ...own] = every.series;
    const series = [{ ...mean, low: null, high: null }, ...own.filter((/** @type {any} */ one) => wanted.has(one.name))];
    return { ...every, series: series.map((one, at) => ({ ...one, color: every.series[at].color })) };
  }

  /** What is marked stays while the file is open. @override */
  mark() {}

  /** @override @param {string} path @param {Params} [params] @returns {Promise<Response>} */
  async fetch(path, params = {}) {
    const held = this.pages.get(question(path, params));
    if (!held) throw new Error("it is not in this file; `holter ui` shows it");
    const packed = Uint8Array.from(atob(held.textContent ?? ""), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")));
  }

  /** @override @param {string} name */
  async module(name) {
    return ISLANDS[name];
  }

  /** What is not in the file stays as it was drawn. @override @param {HTMLElement} element */
  async mount(element) {
    const { island = "", figure: name, node, devices, options } = element.dataset;
    const own = Object.fromEntries(new URLSearchParams(options ?? ""));
    if (!(island in ISLANDS)) return;
    if (island === "figure" && !this.pages.has(question(`figures/${name}`, { node, devices, ...own }))) return;
    if (!["chips", "figure", "strip", "table"].includes(island) && !this.pages.has(ASKED[island])) return;
    await super.mount(element);
  }

  /** @override */
  read() {
    const asked = new URLSearchParams(parts()[1]);
    const [from, to] = [Number(asked.get("from") ?? 0), Number(asked.get("to") ?? NaN)];
    this.range = from < to ? { from, to } : null;
    this.axis = asked.get("axis") === "step" ? "step" : "time";
  }

  /** @override */
  write() {
    const window = new URLSearchParams();
    if (this.range) for (const [name, value] of Object.entries(this.range)) window.set(name, String(value));
    if (this.axis === "step") window.set("axis", "step");
    const after = window.size ? `?${window}` : "";
    history.pushState(null, "", `#${parts()[0] || this.sheets[0].id}${after}`);
    for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-page]"))) {
      link.hash = `${link.dataset.page}${after}`;
    }
  }
}

/** What an island asks first. @type {Record<string, string>} */
const ASKED = { flame: "flames", heatmap: "heatmap", timeline: "timeline" };

/** The page and the window that the address names. */
function parts() {
  const [page, window = ""] = decodeURIComponent(location.hash.slice(1)).split("?");
  return [page, window];
}

/** A question as the file names its answer. @param {string} path @param {Params} params */
function question(path, params) {
  const given = Object.entries(params).filter(([name, value]) => value != null && value !== "" && !ANY.has(name));
  const query = new URLSearchParams(given.sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, value]) => [name, String(value)]));
  return query.size ? `${path}?${query}` : path;
}

const page = new Alone();
bar(page);
head(page);
page.settle();
