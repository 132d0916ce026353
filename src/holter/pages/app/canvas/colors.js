// Colors of canvases: the page's colors by name, and the scale of the heat map, which suits any color vision.

/** Corners of cividis (Nuñez, Anderton and Renslow 2018), as in the report. */
const CORNERS = [
  [0, 32, 77],
  [61, 78, 109],
  [124, 123, 120],
  [187, 173, 107],
  [255, 234, 70],
];
const STEPS = 255;

/** A color as a canvas keeps it in memory: alpha, blue, green, red. @param {number[]} rgb @returns {number} */
const packed = (rgb) => ((255 << 24) | (rgb[2] << 16) | (rgb[1] << 8) | rgb[0]) >>> 0;

/** The heat map's 256 colors, from 0 to 100 %. */
export const HEAT = new Uint32Array(STEPS + 1).map((_, at) => {
  const place = (at / STEPS) * (CORNERS.length - 1);
  const low = Math.min(Math.floor(place), CORNERS.length - 2);
  return packed(CORNERS[low].map((one, part) => Math.round(one + (CORNERS[low + 1][part] - one) * (place - low))));
});

/** The same as a background in CSS, from left to right. */
export const HEAT_CSS = `linear-gradient(to right, ${CORNERS.map((rgb) => `rgb(${rgb.join(" ")})`).join(", ")})`;

/** One color in the forms that painting needs. @typedef {{rgb: number[], css: string, packed: number, text: string}} Color */

/** @param {number[]} rgb @returns {Color} */
export function color(rgb) {
  const [red, green, blue] = rgb.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  // Whichever of black and white has the greater contrast.
  return { rgb, css: `rgb(${rgb.join(" ")})`, packed: packed(rgb), text: light > 0.179 ? "#000" : "#fff" };
}

/** @param {number[]} one @param {number[]} other @param {number} share @returns {number[]} */
export const mixed = (one, other, share) => one.map((part, at) => Math.round(part + (other[at] - part) * share));

const WHITE = [255, 255, 255];

/** The page's colors as they are now: light or dark. */
export class Theme {
  /** @param {Element} element */
  constructor(element) {
    // Only the color of an element says what a variable means now: it may hold one for light and one for dark.
    const probe = element.appendChild(document.createElement("i"));
    /** @param {string} name @param {string} other */
    const named = (name, other) => {
      probe.style.color = `var(${name}, ${other})`;
      const parts = getComputedStyle(probe).color.match(/[\d.]+/g) ?? [];
      return color(parts.length < 3 ? [128, 128, 128] : parts.slice(0, 3).map(Number));
    };
    this.background = named("--bg", "#fff");
    this.text = named("--fg", "#000");
    this.dim = named("--dim", "#555");
    this.line = named("--line", "#ddd");
    this.card = named("--card", "#f6f8fa");
    this.accent = named("--link", "#0b57a4");
    this.alert = named("--bad", "#b3261e");
    /** @type {Map<string, Color>} */
    this.phases = new Map(
      ["data_loading", "h2d", "forward", "loss", "backward", "optimizer", "compute", "communication", "checkpoint", "eval"].map(
        (phase) => [phase, named(`--${phase}`, "#888")],
      ),
    );
    this.other = named("--other", "#b0b6bd");
    this.palette = [0, 1, 2, 3, 4, 5, 6].map((at) => named(`--c${at}`, "#0072b2"));
    probe.remove();
  }

  /**
   * The color of an event: that of its phase where it says one, of communication and copies where it is one;
   * else one of the palette, always the same for a name.
   * @param {string} name @param {string} kind of its lane @returns {Color}
   */
  event(name, kind) {
    if (kind === "phases") {
      const phase = name.split(":", 1)[0];
      return this.phases.get({ fetch: "data_loading", collate: "data_loading" }[phase] ?? phase) ?? this.other;
    }
    if (/nccl|rccl|allreduce|all_reduce|allgather|all_gather|reducescatter|reduce_scatter|c10d::/i.test(name)) {
      return /** @type {Color} */ (this.phases.get("communication"));
    }
    if (/^(h2d|d2h|d2d|p2p|h2h|memset)$|memcpy|memset/i.test(name)) {
      return /** @type {Color} */ (this.phases.get("h2d"));
    }
    // What differs in a number only looks alike: layers, steps, shapes.
    let hash = 7;
    for (const letter of name.slice(0, 80).replace(/\d+/g, "")) hash = (hash * 31 + letter.charCodeAt(0)) | 0;
    const base = this.palette[Math.abs(hash) % this.palette.length];
    // Towards white in light and in dark: darker ones could hardly be told from a dark page.
    return color(mixed(base.rgb, WHITE, ((Math.abs(hash) >> 8) % 4) * 0.15));
  }
}
