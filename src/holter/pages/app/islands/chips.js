// Checkboxes for devices: the selection is drawn at once and kept in the address.

/** @typedef {import("../page.js").Page} Page */

/**
 * @param {HTMLElement} element
 * @param {Page} page
 */
export function mount(element, page) {
  const group = /** @type {string} */ (element.dataset.group);
  const boxes = () => /** @type {NodeListOf<HTMLInputElement>} */ (element.querySelectorAll("input[type=checkbox]"));
  const button = element.querySelector("form button");
  if (button instanceof HTMLElement) button.hidden = true;

  function show() {
    const marked = [...boxes()].filter((one) => one.checked).map((one) => one.value).join(",");
    for (const chart of page.main.querySelectorAll(`[data-island=figure][data-group=${group}]`)) {
      if (chart instanceof HTMLElement) chart.dataset.devices = marked;
    }
    page.mark(group, marked);
  }

  element.addEventListener("change", show);
  return { destroy: () => element.removeEventListener("change", show) };
}
