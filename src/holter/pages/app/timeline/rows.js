// The rows of a timeline from the tree of lanes: open branches, the filter, and positions.

/**
 * @typedef {object} Entry an entry of the tree, as the server sends it
 * @property {string} kind
 * @property {string} name
 * @property {number} [lane]
 * @property {number} [series]
 * @property {number} [rank] of a process
 * @property {string} [unit]
 * @property {number} [lines]
 * @property {number} [events]
 * @property {Entry[]} [children]
 *
 * @typedef {object} Row
 * @property {Entry} entry
 * @property {string} key its path in the tree
 * @property {number} indent
 * @property {boolean} open
 * @property {boolean} opens whether there is anything to open
 * @property {number} top
 * @property {number} height
 * @property {number} lines drawn
 * @property {number[]} streams lanes whose work a device or a closed process shows
 * @property {string} [title] of a pinned row: its name with what is above it
 */

export const LINE = 16;
const [SHELF, SERIES, PAD] = [22, 38, 4];
const MANY_PROCESSES = 4;
const MANY_LINES = 12;

export class Rows {
  /** @param {number | null} rank the only rank to show; null for all */
  constructor(rank = null) {
    this.rank = rank;
    /** @type {Entry[]} */
    this.tree = [];
    /** Paths that are not as they are at first. @type {Set<string>} */
    this.turned = new Set();
    this.filter = "";
    /** Lanes that are shown first, with their names. @type {Map<number, string>} */
    this.pinned = new Map();
    /** @type {Row[]} */
    this.list = [];
    this.height = 0;
    /** The first processes, which are open at first. @type {Set<Entry>} */
    this.early = new Set();
  }

  /** @param {Entry[]} tree */
  plant(tree) {
    const shown = (/** @type {Entry} */ one) => this.rank === null || one.rank === undefined || one.rank === this.rank;
    this.tree = tree.map((host) => ({ ...host, children: host.children?.filter(shown) }));
    this.pinned.clear(); // numbers of lanes belong to the tree
    const processes = this.tree.flatMap((host) => (host.children ?? []).filter(({ kind }) => kind === "process"));
    this.early = new Set(processes.slice(0, MANY_PROCESSES));
    this.lay();
  }

  lay() {
    this.list = [];
    this.height = 0;
    for (const entry of this.tree) this.add(entry, "", 0, false);
    if (this.pinned.size) this.raise();
  }

  /** Pin a lane, or unpin it. @param {number} lane @param {string} title */
  pin(lane, title) {
    if (!this.pinned.delete(lane)) this.pinned.set(lane, title);
    this.lay();
  }

  /** Bring the pinned rows to the top. */
  raise() {
    const title = (/** @type {Row} */ { entry }) => (entry.lane === undefined ? undefined : this.pinned.get(entry.lane));
    const pinned = this.list.filter((row) => title(row) !== undefined).map((row) => ({ ...row, key: `pinned${row.key}`, indent: 0, title: `★ ${title(row)}` }));
    this.list = [...pinned, ...this.list.filter((row) => title(row) === undefined)];
    this.height = 0;
    for (const row of this.list) {
      row.top = this.height;
      this.height += row.height;
    }
  }

  /** Whether an entry is open at first. @param {Entry} entry @returns {boolean} */
  begins(entry) {
    if (entry.kind === "process") return this.early.has(entry);
    if (entry.kind === "more") return false;
    return entry.children ? true : (entry.lines ?? 1) <= MANY_LINES;
  }

  /** @param {Entry} entry @param {string} above @param {number} indent @param {boolean} shown by a filter that an entry above fits */
  add(entry, above, indent, shown) {
    const key = `${above}/${entry.kind}:${entry.lane ?? entry.series ?? ""}:${entry.name}`;
    const fits = shown || !this.filter || entry.name.toLowerCase().includes(this.filter);
    if (!fits && !this.holds(entry)) return;
    const opens = Boolean(entry.children?.length) || (entry.lines ?? 1) > 1;
    const open = this.begins(entry) !== this.turned.has(key) || (!fits && this.filter !== "");
    const lines = entry.lane === undefined ? 0 : open ? Math.max(1, entry.lines ?? 1) : 1;
    const height = entry.lane !== undefined ? lines * LINE + PAD : entry.series !== undefined ? SERIES : SHELF;
    const streams = entry.kind === "device" || (entry.kind === "process" && !open) ? lanesOf(entry) : [];
    this.list.push({ entry, key, indent, open, opens, top: this.height, height, lines, streams });
    this.height += height;
    if (open) for (const child of entry.children ?? []) this.add(child, key, indent + 1, fits && this.filter !== "");
  }

  /** Whether something below fits the filter. @param {Entry} entry @returns {boolean} */
  holds(entry) {
    return (entry.children ?? []).some((child) => child.name.toLowerCase().includes(this.filter) || this.holds(child));
  }

  /** @param {Row} row */
  turn(row) {
    const key = row.title === undefined ? row.key : row.key.slice("pinned".length);
    if (!this.turned.delete(key)) this.turned.add(key);
    this.lay();
  }

  /** Open or close everything. @param {boolean} open */
  all(open) {
    this.turned.clear();
    const visit = (/** @type {Entry} */ entry, /** @type {string} */ above) => {
      const key = `${above}/${entry.kind}:${entry.lane ?? entry.series ?? ""}:${entry.name}`;
      // Closed means: hosts open, so that their processes are seen.
      if (this.begins(entry) !== (open || entry.kind === "host")) this.turned.add(key);
      for (const child of entry.children ?? []) visit(child, key);
    };
    for (const entry of this.tree) visit(entry, "");
    this.lay();
  }

  /** Open what is above a lane, so that it is seen; returns its row. @param {number} lane @returns {Row | null} */
  reveal(lane) {
    this.filter = "";
    for (let tries = 0; tries < 12; tries++) {
      this.lay();
      const row = this.list.find(({ entry }) => entry.lane === lane);
      if (row) return row;
      const above = this.list.filter(({ entry, open }) => !open && lanesOf(entry, true).includes(lane)).pop();
      if (!above) return null;
      this.turn(above);
    }
    return null;
  }

  /** Rows that are seen between two heights. @param {number} top @param {number} bottom @returns {Row[]} */
  between(top, bottom) {
    let [low, high] = [0, this.list.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.list[middle].top + this.list[middle].height <= top) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (let at = low; at < this.list.length && this.list[at].top < bottom; at++) found.push(this.list[at]);
    return found;
  }

  /** What a lane is called, with what is above it. @param {number} lane @returns {string} */
  track(lane) {
    const pinned = this.pinned.get(lane);
    if (pinned !== undefined) return pinned;
    const row = this.list.find(({ entry }) => entry.lane === lane);
    if (!row) return "a closed track";
    const names = [row.entry.name];
    let indent = row.indent;
    for (let at = this.list.indexOf(row); at >= 0 && indent > 0; at--) {
      if (this.list[at].indent >= indent) continue;
      indent = this.list[at].indent;
      names.unshift(this.list[at].entry.name);
    }
    return names.join(" › ");
  }
}

/** Streams below an entry, or all its lanes. @param {Entry} entry @param {boolean} [all] @returns {number[]} */
function lanesOf(entry, all = false) {
  const own = entry.lane !== undefined && (all || entry.kind === "stream") ? [entry.lane] : [];
  return own.concat((entry.children ?? []).flatMap((child) => lanesOf(child, all)));
}
