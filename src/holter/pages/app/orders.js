// Sends orders to a running job, and shows the answer beside the button.

/** @typedef {import("./page.js").Page} Page */

/** @param {Page} page */
export function orders(page) {
  document.addEventListener("submit", (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    const order = form.dataset.order;
    if (!order) return;
    event.preventDefault();
    const sure = form.dataset.sure;
    if (sure) ask(sure, () => send(page, form, order));
    else send(page, form, order);
  });
}

/**
 * @param {Page} page
 * @param {HTMLFormElement} form
 * @param {string} order
 */
async function send(page, form, order) {
  const out = /** @type {HTMLOutputElement} */ (form.querySelector("output"));
  out.textContent = "…";
  try {
    const answer = await fetch(page.address(order), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(given(form)),
    });
    const told = await answer.json();
    out.textContent = answer.ok ? (form.dataset.told ?? "sent") : told.error;
    out.classList.toggle("refused", !answer.ok);
  } catch {
    out.textContent = "the server does not answer";
  }
}

/**
 * What a form says, as the order takes it: empty fields are left out, numbers are numbers.
 * @param {HTMLFormElement} form
 */
function given(form) {
  /** @type {Record<string, string | number | boolean>} */
  const found = {};
  for (const field of form.elements) {
    if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement) || !field.name) continue;
    if (field instanceof HTMLInputElement && field.type === "checkbox") {
      if (field.checked) found[field.name] = true;
    } else if (field.value !== "") {
      // A moment is written in the reader's own time, and told in seconds since the epoch.
      if (field.type === "datetime-local") found[field.name] = new Date(field.value).getTime() / 1000;
      else found[field.name] = field.dataset.number === undefined ? field.value : Number(field.value);
    }
  }
  return found;
}

/** Ask before something that cannot be taken back. @param {string} question @param {() => void} yes */
function ask(question, yes) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", "are you sure");
  const go = Object.assign(document.createElement("button"), { textContent: "Yes", className: "danger" });
  const stay = Object.assign(document.createElement("button"), { textContent: "Cancel", autofocus: true });
  go.addEventListener("click", () => {
    dialog.close();
    yes();
  });
  stay.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  dialog.append(Object.assign(document.createElement("p"), { textContent: question }), go, " ", stay);
  document.body.append(dialog);
  dialog.showModal();
}
