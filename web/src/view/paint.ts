// Drawing spans on a canvas: whatever is visible, at whatever scale, in a few milliseconds.
//
// Spans narrower than a pixel are drawn pixel by pixel: one binary search leads to the first span of
// the next pixel, and a running sum gives the covered part of this one. So the cost of a row is
// bounded by its pixels, not by its spans.
import type { State } from "../state";
import type { Row, SpanRows } from "../data/rows";
import { visible } from "../dom";
import { ROW_HEIGHT } from "./lines";

const SHADES = 4;
const BAR = ROW_HEIGHT - 1;
const TEXT_FROM = 26; // pixels
const NARROW = 1.5; // pixels

export class SpanPainter {
  private readonly rects: number[][] = []; // by colour and shade: x, y, width
  private readonly texts: { span: number; x: number; y: number; width: number }[] = [];
  private readonly widths = new Map<string, number>(); // of labels, in pixels
  private matchesBefore: Int32Array | null = null; // spans of `order` before each position that match
  private searched: State["search"] = null;
  private rows: SpanRows | null = null; // rows for which matchesBefore is valid

  constructor(private readonly state: State) {}

  // Collects one row; `y` is its top. Nothing is drawn until flush().
  addRow(row: Row, y: number, from: number, perPixel: number, width: number): void {
    const { spans } = this.state;
    this.prepareSearch();
    const to = from + width * perPixel;
    const [first, last] = spans.shown.visible(row, from, to);
    let i = first;
    while (i < last) {
      const span = spans.shown.order[i];
      const start = spans.start[span];
      const pixels = (spans.end[span] - start) / perPixel;
      if (pixels >= NARROW) {
        const x = Math.max((start - from) / perPixel, -2);
        const right = Math.min((spans.end[span] - from) / perPixel, width + 2);
        const color = this.isMuted(i, i + 1) ? -1 : this.colorOf(span);
        this.add(color, SHADES - 1, x, y, Math.max(right - x - 0.5, 1));
        if (right - x > TEXT_FROM)
          this.texts.push({ span, x: Math.max(x, 0), y, width: right - Math.max(x, 0) });
        i++;
        continue;
      }
      const pixel = Math.floor(start / perPixel);
      let next = Math.min(spans.shown.firstStartingAt(row, (pixel + 1) * perPixel, i + 1), last);
      // Only the last of those that start in this pixel can be wide; it is drawn as itself.
      if (next - 1 > i && spans.duration(spans.shown.order[next - 1]) / perPixel >= NARROW) next--;
      const share = (spans.shown.covered[next] - spans.shown.covered[i]) / perPixel;
      const match = this.isMuted(i, next) ? -1 : this.shownOf(i, next);
      const shade = Math.min(SHADES - 1, 1 + Math.floor(share * (SHADES - 1)));
      // Matches are drawn in full, however short.
      const found = this.matchesBefore !== null && match >= 0;
      this.add(
        match < 0 ? -1 : this.colorOf(match),
        found ? SHADES - 1 : shade,
        pixel - from / perPixel,
        y,
        1,
      );
      i = next;
    }
  }

  flush(context: CanvasRenderingContext2D): void {
    const { colors, theme } = this.state;
    for (let key = 0; key < this.rects.length; key++) {
      const rects = this.rects[key];
      if (!rects?.length) continue;
      const color = Math.floor(key / SHADES) - 1;
      context.fillStyle = color < 0 ? theme.muted : colors.palette[color];
      context.globalAlpha = [0.3, 0.5, 0.75, 1][key % SHADES];
      for (let i = 0; i < rects.length; i += 3) context.fillRect(rects[i], rects[i + 1], rects[i + 2], BAR);
      rects.length = 0;
    }
    context.globalAlpha = 1;
    this.writeTexts(context);
    this.texts.length = 0;
  }

  private writeTexts(context: CanvasRenderingContext2D): void {
    const { spans, search, theme } = this.state;
    context.font = '11px system-ui, -apple-system, "Segoe UI", sans-serif';
    context.textBaseline = "middle";
    for (const { span, x, y, width } of this.texts) {
      const name = visible(spans.name(span).slice(0, 200));
      let natural = this.widths.get(name);
      if (natural === undefined) this.widths.set(name, (natural = context.measureText(name).width));
      const text = natural <= width - 8 ? name : shortened(name, (width - 8) / natural);
      if (!text) continue;
      context.fillStyle = search && !search.has(span) ? theme.dim : theme.spanText;
      context.fillText(text, x + 4, y + BAR / 2 + 0.5);
    }
  }

  // Adjacent pixels of one colour become one rectangle.
  private add(color: number, shade: number, x: number, y: number, width: number): void {
    const rects = (this.rects[(color + 1) * SHADES + shade] ??= []);
    const end = rects.length;
    if (width === 1 && end && rects[end - 2] === y && Math.abs(rects[end - 3] + rects[end - 1] - x) < 0.01) {
      rects[end - 1] += 1;
    } else {
      rects.push(x, y, width);
    }
  }

  private colorOf(span: number): number {
    return this.state.colors.indexOf(span);
  }

  // Span that gives a pixel its colour: the first match; without a search the longest.
  private shownOf(first: number, last: number): number {
    const { shown } = this.state.spans;
    const before = this.matchesBefore;
    if (before) for (let i = first; i < last; i++) if (before[i + 1] > before[i]) return shown.order[i];
    return shown.longest(first, last);
  }

  private isMuted(first: number, last: number): boolean {
    return this.matchesBefore !== null && this.matchesBefore[last] === this.matchesBefore[first];
  }

  private prepareSearch(): void {
    const { search, spans } = this.state;
    if (search === this.searched && spans.shown === this.rows) return;
    this.searched = search;
    this.rows = spans.shown;
    this.matchesBefore = search && new Int32Array(spans.shown.count + 1);
    if (!search || !this.matchesBefore) return;
    for (let i = 0; i < spans.shown.count; i++) {
      this.matchesBefore[i + 1] = this.matchesBefore[i] + (search.has(spans.shown.order[i]) ? 1 : 0);
    }
  }
}

// The first `share` of a text and an ellipsis; operators also without their namespace.
function shortened(name: string, share: number): string {
  const room = Math.floor(name.length * share);
  const bare = name.replace(/^aten::/, "").replace(/^autograd::engine::evaluate_function: /, "engine: ");
  if (bare.length <= room) return bare;
  return room < 4 ? "" : `${bare.slice(0, room - 1)}…`;
}
