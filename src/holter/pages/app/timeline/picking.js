// Finds the event at a position of a timeline, and its neighbors.

/**
 * @typedef {import("./tiles.js").Tile} Tile
 * @typedef {import("./tiles.js").Tiles} Tiles
 *
 * @typedef {object} Picked
 * @property {number} lane
 * @property {number} depth
 * @property {number} time ns since the job's start
 * @property {number} duration
 * @property {number} count how many events it stands for
 * @property {number} busy
 * @property {number} code
 * @property {string} name
 */

/** @param {Tile} tile @param {number} row @param {number} lane @param {number} depth @returns {Picked} */
function picked(tile, row, lane, depth) {
  return {
    lane,
    depth,
    time: tile.time[row],
    duration: tile.duration[row],
    count: tile.count[row],
    busy: tile.busy[row],
    code: tile.name[row],
    name: tile.names.get(tile.name[row]) ?? "",
  };
}

/**
 * The event at a time on a line, or the nearest within a few pixels, or null.
 * @param {Tiles} tiles @param {{from: number, to: number}} range seen @param {number} pixels its width
 * @param {number} lane @param {number} depth @param {number} time
 * @returns {Picked | null}
 */
export function pick(tiles, range, pixels, lane, depth, time) {
  const reach = (3 * (range.to - range.from)) / pixels;
  let [best, far] = [/** @type {Picked | null} */ (null), reach];
  for (const { from, to, tile } of tiles.held(range.from, range.to, pixels, lane)) {
    if (!tile || time < from - reach || time > to + reach) continue;
    for (let row = tile.lines[depth] ?? 0, end = tile.lines[depth + 1] ?? 0; row < end; row++) {
      const away = Math.max(tile.time[row] - time, time - tile.time[row] - tile.duration[row], 0);
      if (away < far || (away === 0 && far > 0)) [best, far] = [picked(tile, row, lane, depth), away];
    }
  }
  return best;
}

/**
 * The next event on a line, as far as it is held; with no `after` the first one that is seen.
 * @param {Tiles} tiles @param {{from: number, to: number}} range @param {number} pixels
 * @param {number} lane @param {number} depth @param {number | null} after begin of the event before it
 * @param {1 | -1} [direction]
 * @returns {Picked | null}
 */
export function neighbor(tiles, range, pixels, lane, depth, after, direction = 1) {
  /** @type {Picked | null} */
  let best = null;
  for (const { tile } of tiles.held(range.from, range.to, pixels, lane)) {
    if (!tile) continue;
    for (let row = tile.lines[depth] ?? 0, end = tile.lines[depth + 1] ?? 0; row < end; row++) {
      const time = tile.time[row];
      if (after === null ? time + tile.duration[row] < range.from || time > range.to : (time - after) * direction <= 0) continue;
      if (!best || (time - best.time) * direction < 0) best = picked(tile, row, lane, depth);
    }
  }
  return best;
}
