// Positions of the rows of a heat map: a heading per node, rows as high as the space allows.

/** @typedef {import("./cells.js").Row} Row */

const [HEADING, AXIS] = [18, 22];
/** Pixels that a name needs, top to bottom. */
export const LABEL = 12;

export class Layout {
  /** @param {Row[]} rows @param {number} width */
  constructor(rows, width) {
    const nodes = new Set(rows.map((row) => row.node));
    const high = Math.min(18, Math.max(4, Math.floor(420 / Math.max(rows.length, 1))));
    this.rows = rows;
    // A row in another unit than percent names its maximum.
    const longer = rows.some((row) => row.unit !== "%");
    this.left = width < 560 ? (longer ? 136 : 76) : longer ? 196 : 132;
    this.high = high;
    this.tops = new Float64Array(rows.length);
    /** @type {{node: string, top: number}[]} */
    this.headings = [];
    let top = 0;
    rows.forEach((row, at) => {
      if (nodes.size > 1 && row.node !== rows[at - 1]?.node) {
        this.headings.push({ node: row.node, top });
        top += HEADING;
      }
      this.tops[at] = top;
      top += high;
    });
    this.bottom = top;
    this.height = top + AXIS;
  }

  /** The row at a height, or -1. @param {number} y @returns {number} */
  row(y) {
    for (let at = this.tops.length - 1; at >= 0; at--) {
      if (y >= this.tops[at]) return y < this.tops[at] + this.high ? at : -1;
    }
    return -1;
  }

  /** Stretches of rows without a heading between them. @returns {{first: number, count: number}[]} */
  groups() {
    const found = [];
    for (let at = 0; at < this.rows.length; at++) {
      if (at && this.tops[at] === this.tops[at - 1] + this.high) found[found.length - 1].count += 1;
      else found.push({ first: at, count: 1 });
    }
    return found;
  }
}
