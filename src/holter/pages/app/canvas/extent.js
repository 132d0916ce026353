// The time range that a canvas shows, in ns since the job's start; it stays within the data.

export class Extent {
  /** @param {number} low @param {number} high @param {number} shortest what may be seen at least */
  constructor(low, high, shortest) {
    this.low = low;
    this.high = Math.max(high, low + shortest);
    this.shortest = shortest;
    this.from = this.low;
    this.to = this.high;
  }

  get span() {
    return this.to - this.from;
  }

  get whole() {
    return this.from <= this.low && this.to >= this.high;
  }

  /** Extend the data, as while a job runs; a canvas that showed everything still does. @param {number} low @param {number} high */
  grow(low, high) {
    const whole = this.whole;
    this.low = low;
    this.high = Math.max(high, low + this.shortest);
    if (whole) this.all();
    else this.show(this.from, this.to);
  }

  all() {
    this.show(this.low, this.high);
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    const span = Math.min(Math.max(to - from, this.shortest), this.high - this.low);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, this.low), this.high - span);
    this.to = this.from + span;
  }

  /** @param {number} share of what is seen */
  pan(share) {
    const by = Math.min(Math.max(share * this.span, this.low - this.from), this.high - this.to);
    this.from += by;
    this.to += by;
  }

  /** Show more (factor above 1) or less, what is under `at` staying there. @param {number} factor @param {number} at */
  zoom(factor, at) {
    const span = Math.min(Math.max(this.span * factor, this.shortest), this.high - this.low);
    const share = (at - this.from) / this.span;
    this.from = Math.min(Math.max(at - share * span, this.low), this.high - span);
    this.to = this.from + span;
  }
}
