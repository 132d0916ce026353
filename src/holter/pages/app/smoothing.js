// Smoothing of curves over steps: an exponential mean, as in TensorBoard; the values stay visible behind it.

/** @typedef {import("./figures.js").Figure} Figure */
/** @typedef {import("./figures.js").Values} Values */

const FEWEST = 20; // points; fewer need no smoothing
const KEY = "holter-smoothing ";

/** Whether a chart has a control of smoothing. @param {Figure} of */
export const smoothable = (of) => of.kind === "lines" && of.x_axis.label === "step" && of.x.length >= FEWEST;

/** How much a chart is smoothed, 0 to 0.99; kept by the browser. @param {Figure} of @returns {number} */
export function weight(of) {
  if (!smoothable(of)) return 0;
  const kept = Number(read(of.title));
  return kept > 0 && kept < 1 ? kept : 0;
}

/**
 * The mean of each value and those before it, the older the less. Gaps stay gaps.
 * @param {Values} values @param {number} share weight of what came before @returns {Values}
 */
export function smooth(values, share) {
  let [sum, total] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    sum = share * sum + (1 - share) * value;
    total = share * total + (1 - share); // what a mean of few values lacks
    return sum / total;
  });
}

/** The control. @param {Figure} of @param {() => void} changed @returns {HTMLElement} */
export function slider(of, changed) {
  const input = Object.assign(document.createElement("input"), { type: "range", min: "0", max: "0.99", step: "0.01", value: String(weight(of)) });
  input.setAttribute("aria-label", `smoothing of ${of.title}`);
  input.addEventListener("change", () => {
    write(of.title, input.value);
    changed();
  });
  const label = Object.assign(document.createElement("label"), { className: "smoothing", textContent: "smoothing " });
  label.append(input);
  return label;
}

/** @param {string} title */
function read(title) {
  try {
    return localStorage.getItem(KEY + title);
  } catch {
    return null; // the browser keeps nothing for this page
  }
}

/** @param {string} title @param {string} value */
function write(title, value) {
  try {
    localStorage.setItem(KEY + title, value);
  } catch {
    // It holds until the page is drawn anew.
  }
}
