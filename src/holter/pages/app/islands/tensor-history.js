// Chooses the tensors whose histories are drawn: adds and removes them without leaving the page.

/** @typedef {import("../page.js").Page} Page */

const OF_ALL = ["tensor_histories"];
const OF_FIRST = ["tensor_quantiles", "tensor_histogram"];
const SUGGESTED = 30;

/**
 * @param {HTMLElement} element
 * @param {Page} page
 */
export function mount(element, page) {
  const most = Number(element.dataset.most);
  let shown = (element.dataset.shown ?? "").split("\n").filter(Boolean);
  const chips = Object.assign(document.createElement("ul"), { className: "picked" });
  chips.setAttribute("aria-label", "tensors that are drawn");
  const form = Object.assign(document.createElement("form"), { className: "search" });
  const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "words of a name" });
  field.setAttribute("aria-label", "add a tensor to the charts");
  field.setAttribute("list", "tensor-names");
  const list = Object.assign(document.createElement("datalist"), { id: "tensor-names" });
  const said = Object.assign(document.createElement("span"), { className: "dim" });
  said.setAttribute("role", "status");
  const label = Object.assign(document.createElement("label"), { textContent: "draw the history of " });
  label.append(field);
  form.append(label, list, Object.assign(document.createElement("button"), { textContent: "Add" }), said);
  element.replaceChildren(form, chips);

  /** @type {string[]} */
  let suggested = [];
  let turn = 0;
  async function suggest() {
    const mine = ++turn;
    const told = await page.ask("tensors", { search: field.value, limit: SUGGESTED });
    if (mine !== turn) return;
    suggested = told.tensors.map((/** @type {{name: string}} */ one) => one.name);
    list.replaceChildren(...suggested.map((name) => Object.assign(document.createElement("option"), { value: name })));
    said.textContent = field.value ? `${told.count} fit` : "";
  }
  field.addEventListener("input", () => void suggest().catch(() => {}));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await suggest().catch(() => {});
    const name = suggested.includes(field.value) ? field.value : suggested[0];
    if (!name) return void (said.textContent = "no matching tensor");
    field.value = "";
    choose([...shown.filter((one) => one !== name), name].slice(-most));
  });

  /** @param {string[]} names */
  function choose(names) {
    shown = names;
    const address = new URL(location.href);
    address.searchParams.set("tensor", shown.join("\n"));
    history.replaceState(null, "", address);
    draw();
    for (const name of [...OF_ALL, ...OF_FIRST]) {
      const chart = /** @type {HTMLElement | null} */ (page.main.querySelector(`[data-island=figure][data-figure=${name}]`));
      if (!chart) continue;
      const options = new URLSearchParams(chart.dataset.options ?? "");
      // The newest is the one that is looked at closer.
      options.set("tensor", OF_ALL.includes(name) ? shown.join("\n") : (shown[shown.length - 1] ?? ""));
      chart.dataset.options = options.toString();
      page.islands.get(chart)?.update?.();
    }
  }

  function draw() {
    chips.replaceChildren(
      ...shown.map((name) => {
        const remove = Object.assign(document.createElement("button"), { type: "button", textContent: `${name} ×` });
        remove.setAttribute("aria-label", `remove ${name} from the charts`);
        remove.addEventListener("click", () => {
          choose(shown.filter((one) => one !== name));
          field.focus();
        });
        const item = document.createElement("li");
        item.append(remove);
        return item;
      }),
    );
  }

  /** A click on a name of the list adds it, or takes it away. @param {MouseEvent} event */
  function clicked(event) {
    const link = /** @type {Element} */ (event.target).closest("[data-key=tensors] td a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const name = link.textContent ?? "";
    choose(shown.includes(name) ? shown.filter((one) => one !== name) : [...shown, name].slice(-most));
  }

  draw();
  page.main.addEventListener("click", clicked);
  return { destroy: () => page.main.removeEventListener("click", clicked) };
}
