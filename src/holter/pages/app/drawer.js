// The drawer at the right: findings, configuration and controls over the page that is shown. The end of the
// address names what is open, so that it can be linked; without scripts the same links lead to pages.

import { morph } from "./morph.js";

/** @typedef {import("./page.js").Page} Page */

/** @param {Page} page */
export function drawer(page) {
  const links = /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll("nav.pages a[data-drawer]")]);
  if (page.bare || !links.length) return;
  const names = new Map(links.map((link) => [link.dataset.drawer ?? "", link]));
  if (names.has(page.main.dataset.page ?? "")) return; // it is the page itself
  const dialog = document.createElement("dialog");
  dialog.className = "drawer";
  const inside = Object.assign(document.createElement("div"), { className: "drawer-inside" });
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close", className: "close" });
  close.addEventListener("click", () => dialog.close());
  dialog.append(close, inside);
  let shown = "";

  /** @param {string} name */
  async function load(name) {
    const link = names.get(name);
    if (!link) return;
    const there = new URL(link.href);
    there.searchParams.set("part", "inside");
    try {
      const answer = await fetch(there);
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      const told = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
      if (!told) throw new Error("the server answers something else");
      if (shown !== name) return;
      const like = /** @type {HTMLElement} */ (inside.cloneNode(false));
      like.append(...told.childNodes);
      morph(inside, like);
      const title = inside.querySelector("h1");
      if (title) title.id = "drawer-title";
      await page.settle();
    } catch (error) {
      inside.textContent = `could not be loaded: ${error instanceof Error ? error.message : error}`;
    }
  }

  /** @param {string} name */
  function open(name) {
    if (shown !== name) inside.textContent = "…";
    shown = name;
    dialog.setAttribute("aria-label", names.get(name)?.textContent ?? name);
    if (!dialog.isConnected) document.body.append(dialog);
    if (!dialog.open) dialog.showModal();
    load(name);
  }

  /** Do what the address says. */
  function follow() {
    const name = location.hash.slice(1);
    if (names.has(name)) open(name);
    else if (dialog.open) dialog.close();
  }

  dialog.addEventListener("close", () => {
    shown = "";
    inside.replaceChildren();
    dialog.remove();
    page.settle();
    if (names.has(location.hash.slice(1))) history.pushState(null, "", location.pathname + location.search);
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside it
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[data-drawer]") : null;
    if (!(link instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const name = link.dataset.drawer ?? "";
    history.pushState(null, "", `#${name}`);
    open(name);
  });
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
  page.on("live", () => {
    if (shown) load(shown);
  });
  follow();
}
