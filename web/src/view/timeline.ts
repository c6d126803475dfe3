// The timeline: a ruler, the lines with their names at the left, memory below, on one time axis.
import { element, fitCanvas, replace, visible } from "../dom";
import { formatTime } from "../format";
import type { State } from "../state";
import { MemoryStrip } from "./memory_strip";
import { LineLayout, lineName, ROW_HEIGHT, type PlacedLine } from "./lines";
import { Minimap } from "./minimap";
import { SpanPainter } from "./paint";
import { Legend } from "./legend";
import { drawRuler } from "./ruler";
import { Tooltip } from "./tooltip";

export const GUTTER = 168;
const RULER_HEIGHT = 22;
const AXIS_HEIGHT = 63; // with the strip above the ruler
const LEGEND_HEIGHT = 22;
const LEAST_HEIGHT = 170;
const CLICK_SLACK = 4; // pixels that a click may miss or move by

export class Timeline {
  readonly root = element("section", { class: "timeline", aria: { label: "Timeline" } });
  layout: LineLayout;
  pointerTime: number | null = null; // time under the pointer, if it is over the lines
  private readonly minimap: Minimap;
  private readonly memory: MemoryStrip;
  private readonly across = element("span", { title: "Duration of the visible range" });
  private readonly ruler = element("canvas", { class: "ruler" });
  private readonly canvas = element("canvas", { class: "spans", tabIndex: -1 });
  private readonly names = element("div", { class: "names" });
  private readonly scroller = element("div", { class: "scroller" });
  private readonly content = element("div", { class: "content" });
  private readonly painter: SpanPainter;
  private readonly tooltip = new Tooltip();
  private width = 0;
  private height = 0;
  private scheduled = false;
  private hovered = -1;
  private drag: { x: number; y: number; mode: "none" | "range" | "pan"; time: number } | null = null;
  drawn = 0; // frames, for tests

  constructor(private readonly state: State) {
    this.layout = new LineLayout(state.spans);
    this.painter = new SpanPainter(state);
    this.minimap = new Minimap(state);
    this.content.append(this.names, this.canvas);
    this.scroller.append(this.content);
    this.memory = new MemoryStrip(state);
    this.root.append(
      element("div", { class: "axis" }, this.corner(), this.minimap.root, this.ruler),
      this.scroller,
      this.memory.root,
      new Legend(state).root,
    );
    this.placeNames();
    if (!this.layout.lines.length) {
      const nothing = state.report.memory.length
        ? "A memory snapshot has no spans."
        : "No events were recorded.";
      this.content.prepend(element("p", { class: "nothing" }, nothing));
    }
    this.shrinkToFit();
    this.listen();
    state.on(["view", "selection", "search", "theme"], () => this.schedule());
    state.on(["rows"], () => this.rowsChanged());
    state.on(["spans", "marks"], () => this.spansChanged());
    state.on(["selection"], () => this.revealSelected());
    new ResizeObserver(() => this.schedule()).observe(this.scroller);
  }

  private corner(): HTMLElement {
    const { state } = this;
    const box = element("input", { type: "checkbox", checked: state.pythonShown });
    box.addEventListener("change", () => state.showPython(box.checked));
    state.on(["rows"], () => (box.checked = state.pythonShown));
    const title = "Show calls of Python functions in the timeline (P)";
    const choice = element("label", { class: "toggle", title }, box, "Python calls");
    return element("div", { class: "corner" }, state.spans.hasPython ? choice : null, this.across);
  }

  schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
    });
  }

  draw(): void {
    this.width = Math.max(this.scroller.clientWidth - GUTTER, 50);
    this.height = Math.max(this.scroller.clientHeight, 20);
    this.minimap.draw(this.width);
    const { view, theme } = this.state;
    const perPixel = (view.to - view.from) / this.width;
    this.across.textContent = formatTime(view.to - view.from);
    const ruler = fitCanvas(this.ruler, this.width, RULER_HEIGHT);
    drawRuler(ruler, view.from, perPixel, this.width, RULER_HEIGHT, { text: theme.dim, line: theme.line });
    const context = fitCanvas(this.canvas, this.width, this.height);
    context.clearRect(0, 0, this.width, this.height);
    this.drawGrid(context, perPixel);
    this.drawLines(context, perPixel);
    this.memory.draw(this.width, perPixel);
    this.drawRange(context, perPixel);
    this.drawNotes(context, perPixel);
    this.drawArrows(context, perPixel);
    this.outline(context, this.hovered, theme.dim, 1, perPixel);
    this.outline(context, this.state.selected, theme.text, 2, perPixel);
    this.drawn++;
  }

  private drawGrid(context: CanvasRenderingContext2D, perPixel: number): void {
    const { report, view, theme } = this.state;
    context.fillStyle = theme.line;
    for (const start of report.steps?.start ?? []) {
      const x = Math.round((start - view.from) / perPixel);
      if (x >= 0 && x <= this.width) context.fillRect(x, 0, 1, this.height);
    }
    for (const { top, height, rows } of this.layout.lines) {
      if (!rows) continue;
      const y = top + height + 3 - this.scroller.scrollTop;
      if (y > 0 && y < this.height) context.fillRect(0, y, this.width, 1);
    }
  }

  private drawLines(context: CanvasRenderingContext2D, perPixel: number): void {
    const { spans, view } = this.state;
    const scroll = this.scroller.scrollTop;
    for (const placed of this.layout.lines) {
      for (let depth = 0; depth < placed.rows; depth++) {
        const y = placed.top + depth * ROW_HEIGHT - scroll;
        if (y + ROW_HEIGHT < 0 || y > this.height) continue;
        this.painter.addRow(spans.shown.rows[placed.line][depth], y, view.from, perPixel, this.width);
      }
    }
    this.painter.flush(context);
  }

  private drawRange(context: CanvasRenderingContext2D, perPixel: number): void {
    const { range, view, theme } = this.state;
    if (!range) return;
    const [left, right] = [(range.from - view.from) / perPixel, (range.to - view.from) / perPixel];
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.13;
    context.fillRect(left, 0, right - left, this.height);
    context.globalAlpha = 0.9;
    context.fillRect(left, 0, 1, this.height);
    context.fillRect(right - 1, 0, 1, this.height);
    context.globalAlpha = 1;
  }

  private drawNotes(context: CanvasRenderingContext2D, perPixel: number): void {
    const { notes, view, theme } = this.state;
    context.fillStyle = theme.accent;
    context.font = '11px system-ui, -apple-system, "Segoe UI", sans-serif';
    context.textBaseline = "bottom";
    for (const { time, text } of notes) {
      const x = (time - view.from) / perPixel;
      context.fillRect(x, 0, 1, this.height);
      context.fillText(visible(text), x + 4, this.height - 3);
    }
  }

  // Opens a dialog for the text of the note at the pointer, or of a new one.
  editNote(): void {
    const { view, notes } = this.state;
    const time = Math.round(this.pointerTime ?? (view.from + view.to) / 2);
    const near = ((view.to - view.from) / this.width) * CLICK_SLACK;
    const there = notes.find((note) => Math.abs(note.time - time) <= near);
    const text = prompt("Note at this moment, kept in the page's address", there?.text ?? "");
    if (text !== null) this.state.setNote(there?.time ?? time, text, near);
  }

  private drawArrows(context: CanvasRenderingContext2D, perPixel: number): void {
    const { spans, selected } = this.state;
    if (selected < 0) return;
    const end = spans.withArrows(selected);
    for (const target of spans.arrowsFrom(end)) this.drawArrow(context, end, target, perPixel);
    for (const source of spans.arrowsTo(end)) this.drawArrow(context, source, end, perPixel);
  }

  private drawArrow(
    context: CanvasRenderingContext2D,
    source: number,
    target: number,
    perPixel: number,
  ): void {
    const { spans, view, theme } = this.state;
    const x1 = (spans.end[source] - view.from) / perPixel;
    const x2 = (spans.start[target] - view.from) / perPixel;
    const [y1, y2] = [this.middle(source), this.middle(target)];
    const bend = Math.min(Math.max(Math.abs(x2 - x1) / 2, 20), 120);
    context.strokeStyle = context.fillStyle = theme.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 5, y2);
    context.stroke();
    context.beginPath();
    context.moveTo(x2, y2);
    context.lineTo(x2 - 7, y2 - 3.5);
    context.lineTo(x2 - 7, y2 + 3.5);
    context.fill();
  }

  private middle(span: number): number {
    const { spans } = this.state;
    const top = this.layout.top(spans.lineOf(span), spans.shown.depth[span]);
    return top + ROW_HEIGHT / 2 - this.scroller.scrollTop;
  }

  private outline(
    context: CanvasRenderingContext2D,
    span: number,
    color: string,
    thickness: number,
    perPixel: number,
  ): void {
    if (span < 0) return;
    const { spans, view } = this.state;
    const x = Math.max((spans.start[span] - view.from) / perPixel, -5);
    const right = Math.min((spans.end[span] - view.from) / perPixel, this.width + 5);
    const y = this.layout.top(spans.lineOf(span), spans.shown.depth[span]) - this.scroller.scrollTop;
    context.strokeStyle = color;
    context.lineWidth = thickness;
    context.strokeRect(x, y - 0.5, Math.max(right - x, 2), ROW_HEIGHT);
  }

  private placeNames(): void {
    const shown = this.layout.lines.filter((placed) => placed.rows > 0);
    replace(this.names, ...shown.map((placed) => this.nameOf(placed)));
    this.content.style.height = `${this.layout.height}px`;
  }

  // A few lines need less height than the default.
  private shrinkToFit(): void {
    const height = AXIS_HEIGHT + this.layout.height + this.memory.height + LEGEND_HEIGHT + 8;
    this.root.style.flexBasis = `min(25%, ${Math.max(height, LEAST_HEIGHT)}px)`;
  }

  // The lines stay as they were folded.
  private spansChanged(): void {
    this.hovered = -1;
    this.layout = new LineLayout(this.state.spans, this.layout, this.state.pinned);
    this.placeNames();
    this.schedule();
  }

  private rowsChanged(): void {
    this.layout.refresh();
    this.placeNames();
    this.shrinkToFit();
    this.schedule();
  }

  private nameOf(placed: PlacedLine): HTMLElement {
    const toggle = () => {
      this.layout.toggle(placed);
      this.placeNames();
      this.schedule();
    };
    const text = [
      placed.title && element("span", { class: "name-title" }, placed.title),
      element("span", { class: "name-subtitle" }, placed.subtitle),
    ];
    const title = [placed.title, placed.subtitle].filter(Boolean).join(" ");
    const mark = placed.folded ? "▸" : "▾";
    const name = placed.foldable
      ? element(
          "button",
          { class: "name", title, aria: { expanded: String(!placed.folded) }, on: { click: toggle } },
          element("span", { class: "fold" }, mark),
          ...text,
        )
      : element("div", { class: "name", title }, element("span", { class: "fold" }), ...text);
    // As high as its line, so that the text stays in view while the line scrolls.
    const holder = element("div", { class: "name-holder" }, name, placed.title && this.pin(placed));
    holder.style.top = `${placed.top}px`;
    holder.style.height = `${placed.height}px`;
    return holder;
  }

  private pin(placed: PlacedLine): HTMLElement {
    const line = lineName(this.state.spans.lines[placed.line]);
    const isPinned = this.state.pinned.includes(line);
    const title = isPinned ? "Back to its place" : "Keep on top";
    const click = () => this.state.togglePin(line);
    const shown = { class: isPinned ? "pin on" : "pin", title, aria: { label: title }, on: { click } };
    return element("button", shown, isPinned ? "★" : "☆");
  }

  private revealSelected(): void {
    const { spans, selected } = this.state;
    if (selected < 0) return;
    const line = spans.lineOf(selected);
    if (this.layout.reveal(line, spans.shown.depth[selected])) this.placeNames();
    const top = this.layout.top(line, spans.shown.depth[selected]);
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || top + ROW_HEIGHT > scrollTop + clientHeight) {
      this.scroller.scrollTop = top - clientHeight / 2;
    }
  }

  scrollBy(pixels: number): void {
    this.scroller.scrollTop += pixels;
  }

  private timeAt(event: MouseEvent): number {
    const { left } = this.canvas.getBoundingClientRect();
    const { from, to } = this.state.view;
    return from + ((event.clientX - left) / this.width) * (to - from);
  }

  private spanAt(event: MouseEvent): number {
    const { top } = this.canvas.getBoundingClientRect();
    const found = this.layout.at(event.clientY - top + this.scroller.scrollTop);
    if (!found) return -1;
    const { view, spans } = this.state;
    const slack = ((view.to - view.from) / this.width) * CLICK_SLACK;
    return spans.shown.at(spans.shown.rows[found.placed.line][found.depth], this.timeAt(event), slack);
  }

  private listen(): void {
    for (const surface of [this.canvas, this.ruler]) {
      surface.addEventListener("pointerdown", (event) => this.beginDrag(event, surface));
      surface.addEventListener("pointermove", (event) => this.move(event));
      surface.addEventListener("pointerup", (event) => this.endDrag(event, surface === this.canvas));
      surface.addEventListener("pointerleave", () => this.leave());
      surface.addEventListener("dblclick", (event) => this.focusOn(this.spanAt(event)));
      surface.addEventListener("wheel", (event) => this.wheel(event, surface), { passive: false });
    }
    this.scroller.addEventListener("scroll", () => this.schedule());
  }

  private beginDrag(event: PointerEvent, surface: HTMLElement): void {
    if (event.button > 1) return;
    surface.setPointerCapture(event.pointerId);
    this.drag = { x: event.clientX, y: event.clientY, mode: "none", time: this.timeAt(event) };
  }

  private move(event: PointerEvent): void {
    this.pointerTime = this.timeAt(event);
    if (!this.drag) return this.hover(event);
    if (this.drag.mode === "none" && Math.abs(event.clientX - this.drag.x) > CLICK_SLACK) {
      this.drag.mode = event.shiftKey || event.buttons === 4 ? "pan" : "range";
      this.tooltip.hide();
    }
    if (this.drag.mode === "range") {
      const [from, to] = [this.drag.time, this.pointerTime].sort((a, b) => a - b);
      const { duration } = this.state;
      this.state.selectRange({ from: Math.max(0, from), to: Math.min(Math.max(to, from + 1), duration) });
    } else if (this.drag.mode === "pan") {
      this.state.pan((this.drag.x - event.clientX) / this.width);
      this.scroller.scrollTop += this.drag.y - event.clientY;
      this.drag.x = event.clientX;
      this.drag.y = event.clientY;
    }
  }

  private endDrag(event: PointerEvent, onSpans: boolean): void {
    const clicked = this.drag?.mode === "none";
    this.drag = null;
    if (clicked && onSpans) this.state.select(this.spanAt(event));
  }

  private hover(event: PointerEvent): void {
    const span = event.currentTarget === this.canvas ? this.spanAt(event) : -1;
    if (span !== this.hovered) this.schedule();
    this.hovered = span;
    this.canvas.style.cursor = span >= 0 ? "pointer" : "default";
    if (span < 0) return this.tooltip.hide();
    const { spans } = this.state;
    const own = spans.selfTime(span);
    const duration = spans.duration(span);
    const unfinished = spans.unfinished.has(span) ? "did not end during the recording" : "";
    const times =
      own === duration ? formatTime(duration) : `${formatTime(duration)}, self ${formatTime(own)}`;
    this.tooltip.show(event.clientX, event.clientY, spans.name(span), [
      times,
      spans.inputsOf(span),
      unfinished,
    ]);
  }

  private leave(): void {
    this.pointerTime = null;
    this.hovered = -1;
    this.tooltip.hide();
    this.schedule();
  }

  private focusOn(span: number): void {
    if (span >= 0) this.state.focus(this.state.spans.start[span], this.state.spans.end[span]);
  }

  // Pinching, Ctrl and the ruler zoom; sideways movement pans; the rest scrolls.
  private wheel(event: WheelEvent, surface: HTMLElement): void {
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey || surface === this.ruler) {
      event.preventDefault();
      this.state.zoom(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.004)), this.timeAt(event));
    } else if (Math.abs(sideways) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      this.state.pan(sideways / this.width);
    }
    this.tooltip.hide();
  }
}
