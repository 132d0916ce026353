// The page as its islands see it: the job, the time window, events; and the loading of islands.

import { Clock } from "./clock.js";
import { Keys } from "./keys.js";
import { Marks } from "./marks.js";

/** @typedef {{from: number, to: number}} Range seconds since the job's start */
/** @typedef {"range" | "live" | "theme" | "axis"} Happening */
/** @typedef {"time" | "step"} AxisName */
/** @typedef {{update?(): void, destroy?(): void}} Island */

const main = /** @type {HTMLElement} */ (document.getElementById("main"));

export class Page {
  constructor() {
    const { job, store, bare } = main.dataset;
    this.main = main;
    this.job = job ?? null;
    this.store = Number(store ?? 0);
    this.bare = bare !== undefined;
    this.keyboard = new Keys();
    /** @type {Map<Happening, Set<() => void>>} */
    this.listeners = new Map();
    /** @type {Map<Element, Island>} */
    this.islands = new Map();
    /** @type {Range | null} null is the whole job */
    this.range = null;
    /** @type {AxisName} */
    this.axis = "time";
    this.read();
    this.clock = new Clock(this);
    this.marks = new Marks(this);
    addEventListener("popstate", () => {
      this.read();
      this.tell("axis");
      this.tell("range");
    });
    addEventListener("resize", reachable);
    // Paper is white: what is drawn in the colors of the dark is drawn anew, and back again.
    /** @type {string | undefined} */
    let shown;
    addEventListener("beforeprint", () => {
      if (this.theme === "light") return;
      shown = document.documentElement.dataset.theme ?? "";
      document.documentElement.dataset.theme = "light";
      this.tell("theme");
    });
    addEventListener("afterprint", () => {
      if (shown === undefined) return;
      if (shown) document.documentElement.dataset.theme = shown;
      else delete document.documentElement.dataset.theme;
      shown = undefined;
      this.tell("theme");
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.tell("theme"));
  }

  /** How long the job has run or did run, seconds. */
  get seconds() {
    return Number(main.dataset.seconds ?? 0);
  }

  /** Whether there is no server behind it: all there is, is in the page's file. */
  get alone() {
    return false;
  }

  /** Which jobs are compared, as the address says it; null on the pages of one job. */
  get compared() {
    return main.dataset.compare ?? null;
  }

  get running() {
    return Boolean(main.dataset.running);
  }

  /** @returns {"light" | "dark"} what is shown now */
  get theme() {
    const chosen = document.documentElement.dataset.theme;
    if (chosen === "light" || chosen === "dark") return chosen;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  /** Choose light or dark; null follows the system. @param {"light" | "dark" | null} chosen */
  setTheme(chosen) {
    if (chosen) document.documentElement.dataset.theme = chosen;
    else delete document.documentElement.dataset.theme;
    try {
      if (chosen) localStorage.setItem("holter.theme", chosen);
      else localStorage.removeItem("holter.theme");
    } catch {
      // It holds for this page then.
    }
    this.tell("theme");
  }

  /** Look at a window of time; null is the whole job. Goes into the address. @param {Range | null} range */
  setRange(range) {
    const whole = !range || range.to - range.from < 1e-9;
    if (whole && !this.range) return;
    this.range = whole ? null : { from: Math.max(0, round(range.from)), to: round(range.to) };
    this.write();
    this.tell("range");
  }

  /** @param {AxisName} axis */
  setAxis(axis) {
    if (axis === this.axis) return;
    this.axis = axis;
    this.write();
    this.tell("axis");
  }

  /** The job that this one is compared with, as `store/job` or `job`; null for none. */
  get baseline() {
    return new URLSearchParams(location.search).get("baseline");
  }

  /** Compare with a job; null ends it. @param {string | null} baseline */
  compareWith(baseline) {
    const address = new URL(location.href);
    if (baseline) address.searchParams.set("baseline", baseline);
    else address.searchParams.delete("baseline");
    location.assign(address);
  }

  /** The rank that is shown; null for all. */
  get rank() {
    const chosen = new URLSearchParams(location.search).get("rank");
    return chosen ? Number(chosen) : null;
  }

  /** Show one rank on all pages; an empty text shows all. @param {string} rank */
  showRank(rank) {
    const address = new URL(location.href);
    if (rank) address.searchParams.set("rank", rank);
    else address.searchParams.delete("rank");
    location.assign(address);
  }

  /** The window in numbers, also of the whole job. @returns {Range} */
  get shown() {
    return this.range ?? { from: 0, to: this.seconds };
  }

  /** Put into the address which devices are marked. @param {string} group @param {string} marked */
  mark(group, marked) {
    const address = new URL(location.href);
    if (marked) address.searchParams.set(group, marked);
    else address.searchParams.delete(group);
    history.replaceState(null, "", address);
  }

  /**
   * Ask for JSON below `/api/v1/jobs/{job}/`. Throws an `Error` with a sentence for people.
   * @param {string} path
   * @param {Record<string, string | number | null | undefined>} [params] what is null or undefined is left out
   * @param {string} [job] another than the page's
   * @returns {Promise<any>}
   */
  async ask(path, params = {}, job) {
    const answer = await this.fetch(path, params, undefined, job);
    const told = await answer.json().catch(() => ({ error: `the server answers ${answer.status}` }));
    if (!answer.ok) throw new Error(told.error);
    return told;
  }

  /**
   * The answer to a question as it comes, of any kind.
   * @param {string} path
   * @param {Record<string, string | number | null | undefined>} [params]
   * @param {AbortSignal} [signal]
   * @param {string} [job]
   * @returns {Promise<Response>}
   */
  fetch(path, params = {}, signal, job) {
    return fetch(this.address(path, params, job), { signal });
  }

  /**
   * @param {string} path
   * @param {Record<string, string | number | null | undefined>} [params]
   * @param {string} [job]
   */
  address(path, params = {}, job = this.job ?? "") {
    const given = Object.entries({ store: this.store, ...params }).filter(([, value]) => value != null);
    const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
    if (this.compared) return `/api/v1/compare/${path}?${this.compared}&${query}`;
    return `/api/v1/jobs/${encodeURIComponent(job)}/${path}?${query}`;
  }

  /**
   * Hear of something; returns what ends it.
   * @param {Happening} what
   * @param {() => void} fn
   */
  on(what, fn) {
    const all = this.listeners.get(what) ?? new Set();
    this.listeners.set(what, all.add(fn));
    return () => void all.delete(fn);
  }

  /** @param {Happening} what */
  tell(what) {
    for (const fn of [...(this.listeners.get(what) ?? [])]) fn();
  }

  /**
   * Register a keyboard command for the `?` help; returns what takes it back.
   * @param {string} description
   * @param {string} key
   * @param {(event: KeyboardEvent) => void} fn
   */
  keys(description, key, fn) {
    return this.keyboard.add(description, key, fn);
  }

  /** Load the islands that are on the page and not alive yet; end those that are gone from it. */
  async settle() {
    for (const [element, island] of this.islands) {
      if (element.isConnected) continue;
      island.destroy?.();
      this.islands.delete(element);
    }
    reachable();
    if (this.bare) return;
    const places = [...document.querySelectorAll("[data-island]")].filter((one) => !this.islands.has(one));
    await Promise.all(places.map((element) => this.mount(/** @type {HTMLElement} */ (element))));
  }

  /** @param {HTMLElement} element */
  async mount(element) {
    this.islands.set(element, {});
    try {
      const module = await this.module(element.dataset.island ?? "");
      this.islands.set(element, (await module.mount(element, this)) ?? {});
      element.dataset.alive = "";
    } catch (error) {
      // What the server drew stays; the others live.
      console.warn(`island ${element.dataset.island}:`, error);
    }
  }

  /** The module of an island. @param {string} name @returns {Promise<any>} */
  module(name) {
    return import(`./islands/${name}.js`);
  }

  /** The job has changed: bring every island up to date. */
  refresh() {
    for (const island of this.islands.values()) island.update?.();
    this.tell("live");
  }

  read() {
    const asked = new URLSearchParams(location.search);
    const [from, to] = [Number(asked.get("from") ?? 0), Number(asked.get("to") ?? NaN)];
    this.range = from < to ? { from, to } : null;
    this.axis = asked.get("axis") === "step" ? "step" : "time";
  }

  write() {
    const address = new URL(location.href);
    stamp(address, this);
    history.pushState(null, "", address);
    // Links to other pages of the job keep the window.
    for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-page]"))) {
      const there = new URL(link.href);
      stamp(there, this);
      link.href = there.href;
    }
  }
}

/** What has to be scrolled can be reached by keyboard, and only that. */
export function reachable() {
  for (const one of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".scroll"))) {
    if (one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  }
}

/**
 * @param {URL} address
 * @param {Page} page
 */
function stamp(address, page) {
  const kept = { from: page.range?.from, to: page.range?.to, axis: page.axis === "step" ? "step" : undefined };
  for (const [name, value] of Object.entries(kept)) {
    if (value === undefined) address.searchParams.delete(name);
    else address.searchParams.set(name, String(value));
  }
}

/** A timeline goes down to nanoseconds. @param {number} seconds */
const round = (seconds) => Math.round(seconds * 1e9) / 1e9;
