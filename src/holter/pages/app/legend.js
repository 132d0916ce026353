// The legend of a chart: the name of each series; a click hides or shows a series.

/** @typedef {import("./figures.js").Figure} Figure */

const LONGEST = 80; // letters of a name

/**
 * @param {Figure} of
 * @param {Set<string>} hidden names of the series that are not shown; kept up to date
 * @param {(at: number, visible: boolean) => void} toggle
 */
export function legend(of, hidden, toggle) {
  const element = Object.assign(document.createElement("ul"), { className: "legend" });
  const several = of.series.length > 1 || of.kind === "stacked";
  for (const [at, one] of of.series.entries()) {
    const item = document.createElement("li");
    const name = document.createElement(several ? "button" : "span");
    const patch = Object.assign(document.createElement("i"), { className: one.dashed ? `${one.color} dashed` : one.color });
    name.append(patch, short(one.name));
    if (one.name.length > LONGEST) name.title = one.name;
    if (name instanceof HTMLButtonElement) {
      name.type = "button";
      name.setAttribute("aria-pressed", String(!hidden.has(one.name)));
      name.addEventListener("click", () => {
        const visible = name.getAttribute("aria-pressed") !== "true";
        name.setAttribute("aria-pressed", String(visible));
        if (visible) hidden.delete(one.name);
        else hidden.add(one.name);
        toggle(at, visible);
      });
    }
    item.append(name);
    element.append(item);
  }
  return element;
}

/** @param {string} text */
const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST / 2)}…${text.slice(-LONGEST / 2)}` : text);
