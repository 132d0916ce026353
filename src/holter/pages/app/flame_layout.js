// Positions of the bars of a flame graph: the zoomed function and its callers fill the width.

/** @typedef {{name: string, value: number, children?: Node[]}} Node value in ns, with all below */
/** @typedef {{node: Node, path: Node[], row: number, left: number, width: number, hue: number}} Bar */

const LEAST = 0.7; // narrower bars are not drawn, pixels
const MOST = 20000;

/**
 * @param {Node[]} path from the whole to what fills the width
 * @param {number} width
 * @returns {Bar[]}
 */
export function lay(path, width) {
  /** @type {Bar[]} */
  const bars = path.map((node, row) => ({ node, path: path.slice(0, row + 1), row, left: 0, width, hue: hue(node.name) }));
  const waiting = [bars[bars.length - 1]];
  const unit = width / (path[path.length - 1].value || 1);
  for (let at = 0; at < waiting.length && bars.length < MOST; at++) {
    const above = waiting[at];
    let left = above.left;
    for (const node of above.node.children ?? []) {
      const one = { node, path: [...above.path, node], row: above.row + 1, left, width: node.value * unit, hue: hue(node.name) };
      left += one.width;
      if (one.width < LEAST) continue;
      bars.push(one);
      waiting.push(one);
    }
  }
  return bars;
}

/**
 * The bars whose name holds every word.
 * @param {Bar[]} bars
 * @param {string} words
 */
export function find(bars, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return new Set(wanted.length ? bars.filter(({ node }) => wanted.every((word) => node.name.toLowerCase().includes(word))) : []);
}

/** @type {Map<string, number>} */
const hues = new Map();

/** One of six colors for each file, as `drawing/flame.py` has it. @param {string} name */
export function hue(name) {
  const known = hues.get(name);
  if (known !== undefined) return known;
  const open = name.lastIndexOf("(");
  const place = name.endsWith(")") && name.includes(":") ? name.slice(open + 1).replace(/:[^:]*$/, "") : name;
  const found = crc(place) % 6;
  hues.set(name, found);
  return found;
}

/** CRC-32, bit by bit. @param {string} text */
function crc(text) {
  let value = ~0;
  for (const byte of new TextEncoder().encode(text)) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  }
  return ~value >>> 0;
}
