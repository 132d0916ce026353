// Loads the data of charts: islands that ask at the same time share one request.

/** @typedef {import("./page.js").Page} Page */
/** @typedef {{label: string, unit: string, log: boolean, linear?: number | null, top: number | null}} Axis */
/** @typedef {(number | null)[]} Values */
/** @typedef {{name: string, values: Values, low: Values | null, high: Values | null, key: string, color: string,
 *   joined?: boolean, dashed?: boolean}} Series */
/** @typedef {"lines" | "stacked" | "bars" | "heatmap" | "boxes"} Kind */
/**
 * @typedef {{title: string, kind: Kind, x: (number | string)[], x_axis: Axis, y_axis: Axis, series: Series[], broken?: [number, number][] | null, flag?: string,
 *   note: string, html?: string, missing?: string}} Figure
 */
/** @typedef {{resolve: (figure: Figure) => void, reject: (error: Error) => void}} Waiting */

/** @type {Map<string, Map<string, Waiting[]>>} questions that are alike but for the chart, by what they ask */
const open = new Map();

/**
 * @param {Page} page
 * @param {string} name
 * @param {Record<string, string | number | null | undefined>} params
 * @param {string} [job] another than the page's
 * @returns {Promise<Figure>}
 */
export function figure(page, name, params, job) {
  const key = JSON.stringify([params, job]);
  let wanted = open.get(key);
  if (!wanted) {
    open.set(key, (wanted = new Map()));
    setTimeout(() => send(page, key, params, job), 0);
  }
  const waiting = wanted.get(name) ?? [];
  wanted.set(name, waiting);
  return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
}

/**
 * @param {Page} page
 * @param {string} key
 * @param {Record<string, string | number | null | undefined>} params
 * @param {string} [job]
 */
async function send(page, key, params, job) {
  const wanted = open.get(key) ?? new Map();
  open.delete(key);
  try {
    const told = await page.ask("figures", { names: [...wanted.keys()].sort().join(","), html: "yes", ...params }, job);
    for (const [name, waiting] of wanted) for (const one of waiting) one.resolve(told.figures[name]);
  } catch (error) {
    for (const waiting of wanted.values()) for (const one of waiting) one.reject(error);
  }
}
