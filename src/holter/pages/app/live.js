// Keeps a page up to date: when the server reports a change, its contents are loaded again and merged into the
// page. Shows the age of the data and a lost connection. A hidden page sends no requests.

import { morph } from "./morph.js";
import { ago } from "./words.js";

/** @typedef {import("./page.js").Page} Page */

const STALE_S = 10; // a running job is sampled far more often than that

/** @param {Page} page */
export function follow(page) {
  const { main } = page;
  const state = /** @type {HTMLElement} */ (document.getElementById("state"));
  if (!main.dataset.events) return;
  /** @type {EventSource | null} */
  let events = null;
  let address = "";
  /** @type {number | null} when the newest sample was taken, by this browser's clock */
  let sampled = null;
  let lost = "";

  function say() {
    const age = sampled === null ? null : (Date.now() - sampled) / 1000;
    const stale = page.running && age !== null && age > STALE_S;
    const told = age === null || !page.running ? "connected" : stale ? `stale: last sample ${ago(age)}` : `live · last sample ${ago(age)}`;
    // Screen readers announce only what changed.
    const text = lost || told;
    if (state.textContent !== text) state.textContent = text;
    state.classList.toggle("lost", Boolean(lost));
    state.classList.toggle("stale", stale && !lost);
  }

  async function refresh() {
    const there = new URL(location.href);
    if (!page.bare) there.searchParams.set("part", "inside");
    const answer = await fetch(there);
    if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
    const told = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = told.getElementById("main");
    if (!fresh) throw new Error("the server answers something else");
    // The head of an early page lacks the ranks, and which pages have data.
    if (main.dataset.early && !fresh.dataset.early) return void location.reload();
    Object.assign(main.dataset, fresh.dataset);
    const like = /** @type {HTMLElement} */ (main.cloneNode(false));
    like.append(...fresh.childNodes);
    morph(main, like, page.bare);
    if (page.compared && events && main.dataset.events !== address) {
      events.close();
      open();
    }
    await page.settle();
    page.refresh();
  }

  let busy = false;
  let again = false;
  async function changed() {
    if (busy) return void (again = true);
    busy = true;
    try {
      await refresh();
      lost = "";
    } catch (error) {
      lost = `could not be brought up to date (${error instanceof Error ? error.message : error})`;
    }
    busy = false;
    say();
    if (again) {
      again = false;
      setTimeout(changed, 250);
    }
  }

  /** @param {string} data */
  function heard(data) {
    const told = data ? JSON.parse(data) : {};
    // The server tells how old, not when: its clock and ours need not agree.
    // Null: the machine is not sampled now.
    if (told.age_s !== undefined) sampled = told.age_s === null ? null : Date.now() - told.age_s * 1000;
  }

  function open() {
    address = main.dataset.events ?? "";
    if (!address) return; // nothing of it runs any more
    events = new EventSource(address);
    let first = true;
    events.addEventListener("hello", (event) => {
      heard(event.data);
      if (lost || !first || missed || main.dataset.early) changed();
      first = missed = false;
      lost = "";
      say();
    });
    events.addEventListener("changed", (event) => {
      heard(event.data);
      lost = "";
      say();
      changed();
    });
    events.addEventListener("lost", (event) => {
      lost = JSON.parse(event.data).text || "the job is gone";
      say();
    });
    events.onerror = () => {
      lost = "the server does not answer; trying again";
      say();
    };
  }

  let missed = false;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      events?.close();
      events = null;
      missed = true;
    } else if (!events) open();
  });
  // A page whose text depends on the window has it drawn anew.
  page.on("range", () => main.querySelector("[data-ranged]") && changed());
  setInterval(say, 1000);
  if (!document.hidden) open();
}
