// Maps times to steps and steps to times, so that charts can switch between both axes.

/** @typedef {import("./page.js").Page} Page */

export class Clock {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    /** @type {number[]} */
    this.step = [];
    /** @type {number[]} */
    this.time = [];
    this.asked = "";
    /** @type {Promise<void>} */
    this.ready = Promise.resolve();
  }

  /** Be fit for the window that is shown. */
  load() {
    const { range, seconds } = this.page;
    const wanted = JSON.stringify([range, range ? 0 : seconds]);
    if (wanted !== this.asked) {
      this.asked = wanted;
      this.ready = this.page
        .ask("clock", { from: range?.from, to: range?.to, width: 1000 })
        .then(({ step, time }) => {
          this.step = step;
          this.time = time;
        })
        .catch(() => {
          this.asked = "";
        });
    }
    return this.ready;
  }

  /** Whether there are steps to go by. */
  get known() {
    return this.step.length > 1;
  }

  /** @param {number} seconds */
  toStep(seconds) {
    return between(seconds, this.time, this.step);
  }

  /** @param {number} step */
  toTime(step) {
    return between(step, this.step, this.time);
  }
}

/**
 * Read a curve that goes straight between points, and beyond its ends as steep as its last piece.
 * @param {number} x
 * @param {number[]} xs ascending
 * @param {number[]} ys
 */
export function between(x, xs, ys) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  const span = xs[high] - xs[low] || 1;
  return ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / span;
}
