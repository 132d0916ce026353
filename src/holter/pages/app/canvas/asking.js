// Requests to the server that can be canceled and may return bytes.

/**
 * @typedef {import("../page.js").Page} Page
 * @typedef {Record<string, string | number | null | undefined>} Params
 */

/** @param {Page} page @param {string} path @param {Params} params @param {AbortSignal} [signal] @returns {Promise<Response>} */
async function answer(page, path, params, signal) {
  const found = await page.fetch(path, params, signal);
  if (found.ok) return found;
  const told = await found.json().catch(() => ({}));
  throw new Error(told.error ?? `the server answers ${found.status}`);
}

/** @param {Page} page @param {string} path @param {Params} params @param {AbortSignal} [signal] @returns {Promise<any>} */
export const ask = async (page, path, params, signal) => (await answer(page, path, params, signal)).json();

/** @param {Page} page @param {string} path @param {Params} params @param {AbortSignal} [signal] @returns {Promise<ArrayBuffer>} */
export const bytes = async (page, path, params, signal) => (await answer(page, path, params, signal)).arrayBuffer();
