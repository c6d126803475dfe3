// The whole recording in a strip: activity of every thread, and the visible part.
import { element, fitCanvas } from "../dom";
import type { Row } from "../data/rows";
import type { State } from "../state";
import { LineLayout } from "./lines";

const HEIGHT = 40;
const MOST_ROWS = 30;
const MATCH_HEIGHT = 5;
const MOST_HEIGHT_FROM = 8; // with fewer rows, rows are as high as with this many

export class Minimap {
  readonly root = element("div", { class: "minimap", aria: { label: "Whole recording" } });
  private readonly canvas = element("canvas");
  private readonly activity = document.createElement("canvas"); // everything except the window
  private width = 0;
  private dirty = true;
  private dragFrom: number | null = null;
  private searched: State["search"] = null;
  private presence: Uint8Array = new Uint8Array(0); // of search matches, by pixel

  private readonly layout: LineLayout;

  constructor(private readonly state: State) {
    this.layout = new LineLayout(state.overview);
    this.root.append(this.canvas);
    this.listen();
    state.on(["theme", "rows"], () => (this.dirty = true));
  }

  draw(width: number): void {
    if (width !== this.width) this.dirty = true;
    this.width = width;
    const context = fitCanvas(this.canvas, width, HEIGHT);
    if (this.dirty) this.drawActivity();
    context.clearRect(0, 0, width, HEIGHT);
    context.drawImage(this.activity, 0, 0, width, HEIGHT);
    const { view, range, theme } = this.state;
    this.drawMatches(context);
    if (range) {
      context.fillStyle = theme.accent;
      context.globalAlpha = 0.3;
      context.fillRect(this.x(range.from), 0, Math.max(1, this.x(range.to) - this.x(range.from)), HEIGHT);
    }
    const [left, right] = [Math.max(0, this.x(view.from)), Math.min(width, this.x(view.to))];
    context.globalAlpha = 0.6;
    context.fillStyle = theme.background;
    context.fillRect(0, 0, left, HEIGHT);
    context.fillRect(right, 0, width - right, HEIGHT);
    context.globalAlpha = 1;
    context.fillStyle = theme.accent;
    context.fillRect(left, 0, 1.5, HEIGHT);
    context.fillRect(Math.max(right - 1.5, left + 1), 0, 1.5, HEIGHT);
  }

  // A band with the search matches below, as they may be too short to be seen above.
  private drawMatches(context: CanvasRenderingContext2D): void {
    const { search, duration, theme } = this.state;
    if (search !== this.searched || this.presence.length !== this.width) {
      this.searched = search;
      // With only some spans loaded, the band would be wrong.
      const isWhole = !this.state.spans.window;
      this.presence = search && isWhole ? search.presence(duration, this.width) : new Uint8Array(0);
    }
    context.fillStyle = theme.accent;
    for (let x = 0; x < this.presence.length; x++)
      if (this.presence[x]) context.fillRect(x, HEIGHT - MATCH_HEIGHT, 1, MATCH_HEIGHT);
  }

  private drawActivity(): void {
    this.dirty = false;
    const context = fitCanvas(this.activity, this.width, HEIGHT);
    const { overview: spans, overviewColors: colors, theme, duration } = this.state;
    context.clearRect(0, 0, this.width, HEIGHT);
    context.fillStyle = theme.sunken;
    context.fillRect(0, 0, this.width, HEIGHT);
    const rows = this.shownRows();
    const height = (HEIGHT - 4) / Math.max(rows.length, MOST_HEIGHT_FROM);
    const perPixel = duration / this.width;
    rows.forEach((row, i) => {
      for (let x = 0; x < this.width; x++) {
        const [first, last] = spans.shown.visible(row, x * perPixel, (x + 1) * perPixel);
        if (first >= last) continue;
        const inside = Math.min(1, (spans.shown.covered[last] - spans.shown.covered[first]) / perPixel);
        context.globalAlpha = 0.35 + 0.65 * inside;
        context.fillStyle = colors.ofSpan(spans.shown.longest(first, last));
        context.fillRect(x, 2 + i * height, 1, height);
      }
    });
    context.globalAlpha = 1;
  }

  // The top of every line, the busiest first.
  private shownRows(): Row[] {
    const { overview: spans } = this.state;
    const lines = this.layout.lines.map(({ line }) => spans.shown.rows[line]);
    const each = Math.max(3, Math.floor(MOST_ROWS / Math.max(lines.length, 1)));
    return lines.flatMap((rows, i) => rows.slice(0, i === 0 ? Math.max(each, 14) : each)).slice(0, MOST_ROWS);
  }

  private x(time: number): number {
    return (time / this.state.duration) * this.width;
  }

  private time(event: PointerEvent | WheelEvent): number {
    const { left } = this.root.getBoundingClientRect();
    return ((event.clientX - left) / this.width) * this.state.duration;
  }

  // A click moves the window there; a drag draws a new one.
  private listen(): void {
    this.root.addEventListener("pointerdown", (event) => {
      this.dragFrom = this.time(event);
      this.root.setPointerCapture(event.pointerId);
      const half = (this.state.view.to - this.state.view.from) / 2;
      this.state.setView(this.dragFrom - half, this.dragFrom + half);
    });
    this.root.addEventListener("pointermove", (event) => {
      if (this.dragFrom === null) return;
      const to = this.time(event);
      if (Math.abs(to - this.dragFrom) < (this.state.duration / this.width) * 4) return;
      this.state.setView(Math.min(this.dragFrom, to), Math.max(this.dragFrom, to));
    });
    this.root.addEventListener("pointerup", () => (this.dragFrom = null));
    this.root.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.state.zoom(Math.exp(event.deltaY * 0.003), this.time(event));
      },
      { passive: false },
    );
  }
}
