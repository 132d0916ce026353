// A canvas at the screen's resolution that fills its box and is painted at most once per frame.

export class Surface {
  /**
   * @param {HTMLElement} box what it fills
   * @param {(surface: Surface) => void} paint
   */
  constructor(box, paint) {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "surface";
    box.append(this.canvas);
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d", { alpha: false }));
    /** Size in CSS pixels. */
    this.width = 0;
    this.height = 0;
    /** Pixels of the screen for one of CSS. */
    this.ratio = 1;
    this.paint = paint;
    this.asked = 0;
    this.box = box;
    this.watch = new ResizeObserver(() => this.fit());
    this.watch.observe(box);
    this.fit();
  }

  fit() {
    const ratio = Math.min(window.devicePixelRatio || 1, 3);
    const [width, height] = [this.box.clientWidth, this.box.clientHeight];
    if (width === this.width && height === this.height && ratio === this.ratio) return;
    [this.width, this.height, this.ratio] = [width, height, ratio];
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    if (width && height) this.now(); // a canvas that was resized is empty: it would flicker
  }

  /** Paint with the next frame. */
  soon() {
    this.asked ||= requestAnimationFrame(() => this.now());
  }

  now() {
    cancelAnimationFrame(this.asked);
    this.asked = 0;
    if (!this.width || !this.height) return;
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.paint(this);
  }

  destroy() {
    cancelAnimationFrame(this.asked);
    this.watch.disconnect();
    this.canvas.remove();
  }
}
