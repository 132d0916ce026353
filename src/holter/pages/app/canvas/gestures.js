// Recognizes wheel, drag, brush and click on a canvas over time; the caller decides what they do.

/**
 * @typedef {object} Meaning
 * @property {(factor: number, x: number) => void} zoom factor above 1: more is seen
 * @property {(dx: number, dy: number) => void} [drag] by so many pixels; without it a drag is a brush
 * @property {(from: number, to: number, done: boolean) => void} brush from one x to another
 * @property {(x: number, y: number) => void} click
 * @property {(x: number, y: number) => void} twice
 * @property {(x: number, y: number) => void} hover
 * @property {() => void} leave
 */

const CLICK = 4;

/**
 * Listen on an element; `shift` with a drag is always a brush.
 * @param {HTMLElement} element @param {Meaning} meaning @returns {() => void} ends it
 */
export function gestures(element, meaning) {
  const ends = new AbortController();
  /** @type {Map<number, {x: number, y: number}>} */
  const hands = new Map();
  /** @type {{x: number, y: number, brush: boolean, moved: boolean} | null} */
  let begun = null;

  /** @param {PointerEvent | WheelEvent | MouseEvent} event */
  const place = (event) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  /** @template {keyof HTMLElementEventMap} T @param {T} kind @param {(event: HTMLElementEventMap[T]) => void} act */
  const on = (kind, act) => element.addEventListener(kind, act, { signal: ends.signal, passive: false });

  on("wheel", (event) => {
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if ((event.shiftKey || sideways) && !meaning.drag) return; // the page's own scrolling
    event.preventDefault();
    if (event.shiftKey) return meaning.drag?.(0, -(event.deltaY || event.deltaX) * lines);
    if (sideways) return meaning.drag?.(-event.deltaX * lines, 0);
    meaning.zoom(Math.exp(Math.min(Math.max(event.deltaY * lines, -240), 240) / 400), place(event).x);
  });
  on("pointerdown", (event) => {
    if (event.button) return;
    const at = place(event);
    hands.set(event.pointerId, at);
    begun = hands.size > 1 ? null : { ...at, brush: event.shiftKey || !meaning.drag, moved: false };
    element.setPointerCapture(event.pointerId);
  });
  on("pointermove", (event) => {
    const at = place(event);
    const before = hands.get(event.pointerId);
    if (!before) return meaning.hover(at.x, at.y);
    if (hands.size === 2) {
      const [other] = [...hands].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      const wide = Math.max(20, Math.abs(before.x - other.x));
      meaning.zoom(wide / Math.max(20, Math.abs(at.x - other.x)), (at.x + other.x) / 2);
    } else if (begun) {
      begun.moved ||= Math.hypot(at.x - begun.x, at.y - begun.y) > CLICK;
      if (begun.moved && begun.brush) meaning.brush(begun.x, at.x, false);
      else if (begun.moved) meaning.drag?.(at.x - before.x, at.y - before.y);
    }
    if (begun?.moved || hands.size > 1 || !begun) hands.set(event.pointerId, at);
  });
  on("pointerup", (event) => {
    const at = place(event);
    hands.delete(event.pointerId);
    if (begun && !begun.moved) meaning.click(at.x, at.y);
    else if (begun?.brush) meaning.brush(begun.x, at.x, true);
    begun = null;
  });
  on("pointercancel", (event) => {
    hands.delete(event.pointerId);
    begun = null;
  });
  on("pointerleave", () => hands.size || meaning.leave());
  on("dblclick", (event) => {
    const at = place(event);
    meaning.twice(at.x, at.y);
  });
  return () => ends.abort();
}
