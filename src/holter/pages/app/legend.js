// The legend of a chart: each series with its value at the cursor; a click hides or shows a series.

import { moment, number } from "./words.js";

/** @typedef {import("./figures.js").Figure} Figure */

const LONGEST = 80; // letters of a name

/**
 * @param {Figure} of
 * @param {import("./page.js").AxisName | null} shown
 * @param {Set<string>} hidden names of the series that are not shown; kept up to date
 * @param {(at: number, visible: boolean) => void} toggle
 */
export function legend(of, shown, hidden, toggle) {
  const element = Object.assign(document.createElement("ul"), { className: "legend" });
  const place = Object.assign(document.createElement("li"), { className: "at" });
  const several = of.series.length > 1 || of.kind === "stacked";
  const values = of.series.map((one, at) => {
    const item = document.createElement("li");
    const value = document.createElement("b");
    const name = document.createElement(several ? "button" : "span");
    const patch = Object.assign(document.createElement("i"), { className: one.color });
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
    item.append(name, value);
    element.append(item);
    return value;
  });
  element.append(place);
  const unit = of.y_axis.unit ? ` ${of.y_axis.unit}` : "";
  return {
    element,
    /** @param {number | null} at @param {ArrayLike<number>} x */
    show(at, x) {
      const inside = at !== null && at < x.length;
      place.textContent = inside ? where(x[at], x, of, shown) : "";
      for (const [one, value] of values.entries()) {
        const { values: known, low, high } = of.series[one];
        const here = inside ? known[at] : undefined;
        if (here === undefined) value.textContent = "";
        else if (here === null) value.textContent = "no value";
        else {
          const band = low && high && low[/** @type {number} */ (at)] != null ? ` (${number(low[/** @type {number} */ (at)] ?? 0)} – ${number(high[/** @type {number} */ (at)] ?? 0)})` : "";
          value.textContent = `${number(here)}${band}${unit}`;
        }
      }
    },
  };
}

/** @param {string} text */
const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST / 2)}…${text.slice(-LONGEST / 2)}` : text);

/** @param {number} x @param {ArrayLike<number>} all @param {Figure} of @param {import("./page.js").AxisName | null} shown */
function where(x, all, of, shown) {
  if (shown === "time") return `at ${moment(x, all[all.length - 1] - all[0])}`;
  return shown === "step" ? `step ${number(Math.round(x))}` : `${number(x)}${of.x_axis.unit ? ` ${of.x_axis.unit}` : ""}`;
}
