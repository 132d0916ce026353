// Colors of the page's palette for what is drawn on a canvas.

/** The color of a class of the page's palette, as it is now, light or dark. */
/** @param {HTMLElement} element @param {string} name */
export function ink(element, name) {
  const one = Object.assign(document.createElement("i"), { className: name });
  element.append(one);
  const { color } = getComputedStyle(one);
  one.remove();
  return color;
}
