// A table that sorts its rows on a click on a heading and filters them by search words.

/** @typedef {import("../page.js").Page} Page */

const SEARCHED = 12; // shorter tables are read at a glance

/**
 * @param {HTMLElement} element
 * @param {Page} page
 */
export function mount(element, page) {
  /** @type {{column: number, down: boolean} | null} */
  let order = null;
  let words = "";
  const status = Object.assign(document.createElement("span"), { className: "dim" });
  status.setAttribute("role", "status");

  const body = () => element.querySelector("tbody");
  const rows = () => /** @type {HTMLTableRowElement[]} */ ([...(body()?.rows ?? [])]);

  function dress() {
    const heads = /** @type {HTMLTableCellElement[]} */ ([...element.querySelectorAll("thead th")]);
    heads.forEach((head, column) => {
      const text = head.textContent ?? "";
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: text || "…" });
      button.addEventListener("click", () => {
        const numbers = head.classList.contains("n");
        order = { column, down: order?.column === column ? !order.down : numbers };
        sort();
      });
      head.replaceChildren(button);
    });
    if (rows().length > SEARCHED && !element.querySelector("input[type=search]")) {
      const caption = element.querySelector("caption")?.textContent ?? "the table";
      const search = document.createElement("input");
      search.type = "search";
      search.placeholder = "filter these rows";
      search.setAttribute("aria-label", `search ${caption}`);
      search.addEventListener("input", () => {
        words = search.value;
        filter();
      });
      const line = Object.assign(document.createElement("div"), { className: "search" });
      line.append(search, status);
      element.prepend(line);
    }
    if (order) sort();
    filter();
  }

  function sort() {
    if (!order) return;
    const { column, down } = order;
    const sign = down ? -1 : 1;
    const keyed = rows().map((row) => ({ row, key: keyOf(row.cells[column]) }));
    keyed.sort((one, other) => compare(one.key, other.key, sign));
    body()?.append(...keyed.map(({ row }) => row));
    element.querySelectorAll("thead th").forEach((head, at) => {
      if (at === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  function filter() {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows()) {
      const text = (row.textContent ?? "").toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
      shown += Number(!row.hidden);
    }
    status.textContent = wanted.length ? `${shown} of ${rows().length} rows` : "";
  }

  async function update() {
    if (page.alone) return; // it is of the whole job
    const mine = `[data-island=table][data-key="${CSS.escape(element.dataset.key ?? "")}"]`;
    let there = (await whole()).querySelector(mine);
    if (!there) {
      asked = null; // it was drawn before there was such a table
      there = (await whole()).querySelector(mine);
    }
    const fresh = there?.querySelector("tbody");
    if (!there || !fresh || !element.isConnected) return;
    const old = body();
    if (!old) {
      // It came while the page was open.
      element.replaceChildren(...there.childNodes);
      dress();
      return;
    }
    if (old.innerHTML === fresh.innerHTML || old.contains(document.activeElement)) return;
    old.replaceWith(fresh);
    sort();
    filter();
  }

  dress();
  const off = page.on("range", () => void update());
  return { update: () => void update(), destroy: off };
}

/** @type {{at: string, time: number, page: Promise<Document>} | null} */
let asked = null;

/** The page as the server draws it now; all tables of a page share one look. */
function whole() {
  const now = Date.now();
  if (!asked || asked.at !== location.href || now - asked.time > 500) {
    const page = fetch(location.href)
      .then((answer) => answer.text())
      .then((text) => new DOMParser().parseFromString(text, "text/html"));
    asked = { at: location.href, time: now, page };
  }
  return asked.page;
}

/** @param {HTMLTableCellElement | undefined} cell @returns {number | string | null} */
function keyOf(cell) {
  if (!cell) return null;
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const text = (cell.textContent ?? "").trim();
  return text === "" ? null : text;
}

const letters = new Intl.Collator("en", { numeric: true });

/**
 * What is not known comes last, whichever way it is sorted.
 * @param {number | string | null} one
 * @param {number | string | null} other
 * @param {number} sign
 */
function compare(one, other, sign) {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  if (typeof one === "number" && typeof other === "number") return sign * (one - other);
  return sign * letters.compare(String(one), String(other));
}
