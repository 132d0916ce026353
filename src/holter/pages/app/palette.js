// The command palette: pages, jobs, steps and actions, found by a few letters of their names.

import { ago } from "./words.js";

/** @typedef {import("./page.js").Page} Page */
/** @typedef {{text: string, more?: string, kind: string, run: () => void}} Entry */
/** @typedef {{name: string, status: string, store?: number, created: number | null, duration_s: number | null}} Listed */

const MOST = 60;
const STEP = /^(?:step\s*)?(\d[\d,]*)$/i;

/** @param {Page} page */
export function palette(page) {
  /** @type {Promise<Listed[]> | null} */
  let jobs = null;

  function listed() {
    jobs ??= fetch("/api/v1/jobs?limit=500")
      .then((answer) => answer.json())
      .then((told) => told.jobs)
      .catch(() => {
        jobs = null;
        return [];
      });
    return /** @type {Promise<Listed[]>} */ (jobs);
  }

  /** @param {Listed} job @param {string} [below] */
  function address(job, below = "") {
    return `/jobs/${encodeURIComponent(job.name)}${below}?store=${job.store ?? 0}`;
  }

  /** The page of the job that is open, as the address of another job names it. */
  function below() {
    const name = page.main.dataset.page ?? "overview";
    return name === "overview" ? "" : `/${name.replaceAll("_", "-")}`;
  }

  /** @returns {Entry[]} */
  function actions() {
    /** @type {Entry[]} */
    const found = [];
    for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("nav.pages a[data-page]"))) {
      found.push({ text: link.textContent ?? "", kind: link.dataset.drawer ? "drawer" : "page", run: () => link.click() });
    }
    const skipped = new Set(["g", "j", "k", "/", "["]); // chords of pages are there already
    for (const one of page.keyboard.listed()) {
      if (skipped.has(one.key[0]) || one.key === "]" || one.description === "this palette") continue;
      found.push({ text: one.description, more: one.key, kind: "action", run: () => one.run(new KeyboardEvent("keydown")) });
    }
    if (page.job !== null && !page.alone) {
      const report = page.address("report");
      found.push({ text: "download the report", kind: "action", run: () => location.assign(report) });
      if (page.baseline) found.push({ text: "end the comparison with the baseline", kind: "action", run: () => page.compareWith(null) });
      if (page.running) {
        found.push({ text: "profile the next 3 steps", kind: "action", run: () => profile(page) });
        found.push({ text: "stop the training", more: "asks first", kind: "action", run: () => void (location.hash = "controls") });
      }
    }
    return found;
  }

  /** What fits to a text. @param {string} text @param {"all" | "jobs" | "baseline"} among @returns {Promise<Entry[]>} */
  async function entries(text, among) {
    const all = page.alone ? [] : await listed();
    const others = all.filter((job) => job.name !== page.job || (job.store ?? 0) !== page.store);
    const more = (/** @type {Listed} */ job) => [job.status, job.created ? ago((Date.now() - job.created / 1e6) / 1000) : ""].filter(Boolean).join(" · ");
    if (among === "baseline") {
      const name = (/** @type {Listed} */ job) => `${job.store ?? 0}/${job.name}`;
      return others.map((job) => ({ text: job.name, more: more(job), kind: "baseline", run: () => page.compareWith(name(job)) }));
    }
    const known = others.map((job) => ({ text: job.name, more: more(job), kind: "job", run: () => location.assign(address(job, below())) }));
    if (among === "jobs") return known;
    const step = page.job !== null && !page.alone ? STEP.exec(text.trim()) : null;
    /** @type {Entry[]} */
    const at = [];
    if (step) {
      const number = step[1].replaceAll(",", "");
      const there = (/** @type {string} */ tab) => `/jobs/${encodeURIComponent(page.job ?? "")}/${tab}?store=${page.store}&step=${number}${page.rank === null ? "" : `&rank=${page.rank}`}`;
      at.push({ text: `step ${number}`, more: "in the timeline", kind: "step", run: () => location.assign(there("timeline")) });
      at.push({ text: `step ${number}`, more: "on page Performance", kind: "step", run: () => location.assign(there("performance")) });
    }
    return [...at, ...actions(), ...known];
  }

  /** @param {"all" | "jobs" | "baseline"} among */
  async function show(among = "all") {
    if (document.querySelector("dialog.palette")) return;
    const dialog = Object.assign(document.createElement("dialog"), { className: "palette" });
    const title = { all: "commands", jobs: "jobs", baseline: "choose the baseline" }[among];
    dialog.setAttribute("aria-label", title);
    const input = Object.assign(document.createElement("input"), { type: "text", autocomplete: "off", spellcheck: false });
    input.placeholder = { all: "page, job, step 832, action", jobs: "name of a job", baseline: "compare with which job" }[among];
    for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": title })) {
      input.setAttribute(name, value);
    }
    const list = Object.assign(document.createElement("ul"), { id: "palette-list" });
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", title);
    dialog.append(input, list);
    document.body.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.showModal();
    /** @type {Entry[]} */
    let shown = [];
    let at = 0;
    let turn = 0;

    function mark() {
      [...list.children].forEach((one, number) => one.setAttribute("aria-selected", String(number === at)));
      const chosen = list.children[at];
      if (chosen instanceof HTMLElement && shown.length) {
        input.setAttribute("aria-activedescendant", chosen.id);
        chosen.scrollIntoView({ block: "nearest" });
      } else input.removeAttribute("aria-activedescendant");
    }

    async function fill() {
      const mine = ++turn;
      const all = await entries(input.value, among);
      if (mine !== turn) return;
      const text = input.value.trim().toLowerCase();
      shown = all
        .map((entry) => ({ entry, score: entry.kind === "step" ? 1e6 : fit(text, entry.text.toLowerCase()) }))
        .filter((one) => one.score > 0)
        .sort((one, other) => other.score - one.score)
        .slice(0, MOST)
        .map((one) => one.entry);
      at = 0;
      list.replaceChildren(...shown.map((entry, number) => item(entry, number)));
      if (!shown.length) {
        const none = Object.assign(document.createElement("li"), { textContent: "nothing fits", className: "dim" });
        none.setAttribute("role", "option");
        none.setAttribute("aria-disabled", "true");
        list.append(none);
      }
      mark();
    }

    /** @param {Entry} entry @param {number} number */
    function item(entry, number) {
      const one = Object.assign(document.createElement("li"), { id: `palette-${number}` });
      one.setAttribute("role", "option");
      const text = Object.assign(document.createElement("span"), { textContent: entry.text });
      const more = Object.assign(document.createElement("span"), { textContent: entry.more ?? entry.kind, className: "dim" });
      one.append(text, more);
      one.addEventListener("click", () => run(number));
      return one;
    }

    /** @param {number} number */
    function run(number) {
      const entry = shown[number];
      dialog.close();
      entry?.run();
    }

    input.addEventListener("input", fill);
    input.addEventListener("keydown", (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (by && shown.length) at = (at + by + shown.length) % shown.length;
      else if (event.key === "Enter") run(at);
      else return;
      event.preventDefault();
      mark();
    });
    await fill();
  }

  /** Go to the job before or after this one in the list. @param {number} by */
  async function neighbor(by) {
    const all = await listed();
    const at = all.findIndex((job) => job.name === page.job && (job.store ?? 0) === page.store);
    const next = all[at + by];
    if (at >= 0 && next) location.assign(address(next, below()));
  }

  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    event.preventDefault();
    show();
  });
  page.keys("this palette", "Ctrl k", () => show());
  if (page.job !== null && !page.alone) {
    page.keys("another job", "J", () => show("jobs"));
    page.keys("the newer job", "[", () => neighbor(-1));
    page.keys("the older job", "]", () => neighbor(1));
    page.keys("compare with another job", "c", () => show("baseline"));
  }
  return show;
}

/** Ask for a window of operators, and say what the server answers. @param {Page} page */
async function profile(page) {
  const state = document.getElementById("state");
  try {
    const body = JSON.stringify({ operators: true, steps: 3 });
    const answer = await fetch(page.address("profile"), { method: "POST", headers: { "content-type": "application/json" }, body });
    const told = await answer.json();
    if (state) state.textContent = answer.ok ? "profiling was requested; the results appear on page Profile" : told.error;
  } catch {
    if (state) state.textContent = "the server does not answer";
  }
}

/** How well letters fit to a name, 0 if they do not: in one piece, at its beginning, or one after the other. @param {string} text @param {string} name */
export function fit(text, name) {
  if (!text) return 1;
  const whole = name.indexOf(text);
  if (whole >= 0) return 1000 - whole - name.length / 100;
  let at = -1;
  let gaps = 0;
  for (const letter of text.replaceAll(" ", "")) {
    const next = name.indexOf(letter, at + 1);
    if (next < 0) return 0;
    gaps += at < 0 ? 0 : next - at - 1;
    at = next;
  }
  return 100 / (1 + gaps);
}
