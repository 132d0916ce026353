// Updates a part of the page to the server's version and changes only what differs: focus, open details and
// selections stay. Islands are skipped; they update themselves.

const OURS = new Set(["open", "value", "checked"]); // a reader's choice overrides the server

/**
 * @param {Element} here
 * @param {Element} there what it shall be like; is taken apart
 * @param {boolean} [islands] whether to change what is inside islands too
 */
export function morph(here, there, islands = false) {
  attributes(here, there);
  if (here instanceof HTMLOutputElement || (isIsland(here) && !islands)) return;
  const left = new Set(here.childNodes);
  for (const wanted of [...there.childNodes]) {
    const known = [...left].find((one) => alike(one, wanted));
    // All that stands before it and is still left has no place any more, or a later one.
    const next = [...here.childNodes].find((one) => left.has(one)) ?? null;
    if (!known) {
      here.insertBefore(wanted, next);
      continue;
    }
    left.delete(known);
    if (known !== next) here.insertBefore(known, next);
    if (known instanceof Element && wanted instanceof Element) morph(known, wanted, islands);
    else if (known.nodeValue !== wanted.nodeValue) known.nodeValue = wanted.nodeValue;
  }
  for (const gone of left) gone.remove();
}

/**
 * Whether one node can become the other: of the same kind and key.
 * @param {Node} one
 * @param {Node} other
 */
function alike(one, other) {
  if (one.nodeName !== other.nodeName) return false;
  return !(one instanceof Element && other instanceof Element) || keyOf(one) === keyOf(other);
}

/** @param {Element} of */
function keyOf(of) {
  if (!(of instanceof HTMLElement)) return of.id;
  const { key = "", island = "", figure = "" } = of.dataset;
  return [of.id, key, island, figure, island ? "" : of.className].join("|");
}

/** @param {Element} of */
const isIsland = (of) => of instanceof HTMLElement && of.dataset.island !== undefined;

/**
 * @param {Element} here
 * @param {Element} there
 */
function attributes(here, there) {
  for (const { name } of [...here.attributes]) {
    if (!there.hasAttribute(name) && !OURS.has(name) && !isIsland(here)) here.removeAttribute(name);
  }
  for (const { name, value } of there.attributes) {
    if (!OURS.has(name) && here.getAttribute(name) !== value) here.setAttribute(name, value);
  }
}
