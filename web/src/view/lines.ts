// Where every line of the timeline is: order, height, folded or not.
import type { Line } from "../contract";
import type { Spans } from "../data/spans";

export const ROW_HEIGHT = 18;
const LINE_PADDING = 7;
const MOST_ROWS_AT_FIRST = 14;

export interface PlacedLine {
  line: number;
  title: string;
  subtitle: string;
  top: number;
  height: number;
  rows: number; // shown
  folded: boolean;
  foldable: boolean;
}

export class LineLayout {
  readonly lines: PlacedLine[];
  private readonly order: number[]; // without those that are pinned on top
  height = 0;

  // `before`: lines of another window of the same recording; keeps their order and folding.
  constructor(
    private readonly spans: Spans,
    before?: LineLayout,
    pinned: readonly string[] = [],
  ) {
    const known = new Map(
      before?.lines.map((placed) => [
        `${placed.title}\n${placed.subtitle}`,
        { ...placed, i: before.order.indexOf(placed.line) },
      ]),
    );
    const of = (line: number) => {
      const { title, subtitle } = titles(spans.lines[line]);
      return known.get(`${title}\n${subtitle}`);
    };
    const order = lineOrder(spans);
    if (before) order.sort((a, b) => (of(a)?.i ?? Number.MAX_VALUE) - (of(b)?.i ?? Number.MAX_VALUE));
    this.order = order;
    this.lines = pinnedFirst(spans, order, pinned).map((line, position) => ({
      line,
      ...titles(spans.lines[line]),
      top: 0,
      height: 0,
      rows: 0,
      folded: of(line)?.folded ?? (position > 0 && spans.shown.rows[line].length > MOST_ROWS_AT_FIRST),
      foldable: spans.shown.rows[line].length > 1,
    }));
    this.place();
  }

  // Called when the shown kinds of spans change.
  refresh(): void {
    for (const placed of this.lines) placed.foldable = this.spans.shown.rows[placed.line].length > 1;
    this.place();
  }

  toggle(placed: PlacedLine): void {
    placed.folded = !placed.folded;
    this.place();
  }

  // Unfolds the line if the depth is hidden. Returns whether anything changed.
  reveal(line: number, depth: number): boolean {
    const placed = this.lines.find((l) => l.line === line);
    if (!placed || depth < placed.rows) return false;
    placed.folded = false;
    this.place();
    return true;
  }

  // The line and depth at a height; null between lines.
  at(y: number): { placed: PlacedLine; depth: number } | null {
    for (const placed of this.lines) {
      const depth = Math.floor((y - placed.top) / ROW_HEIGHT);
      if (y >= placed.top && depth < placed.rows) return { placed, depth };
    }
    return null;
  }

  top(line: number, depth: number): number {
    const placed = this.lines.find((l) => l.line === line)!;
    return placed.top + Math.min(depth, placed.rows - 1) * ROW_HEIGHT;
  }

  // A folded line keeps its first rows: enough to see steps and what they consist of.
  private place(): void {
    let top = LINE_PADDING;
    for (const placed of this.lines) {
      const all = this.spans.shown.rows[placed.line].length;
      placed.rows = placed.folded ? Math.min(all, 3) : all;
      placed.top = top;
      placed.height = placed.rows * ROW_HEIGHT;
      if (placed.rows) top += placed.height + LINE_PADDING;
    }
    this.height = top;
  }
}

// Busiest thread first, each followed by its lanes; then streams, device by device.
function lineOrder(spans: Spans): number[] {
  const numbers = spans.lines.map((_, i) => i).filter((i) => spans.all.rows[i].length > 0);
  const threads = spans.lines.filter((line) => line.device < 0).length;
  const homeOf = (i: number) => spans.lines[i].home + (spans.lines[i].device < 0 ? 0 : threads);
  const { rows: allRows, covered } = spans.all;
  const busy = allRows.map((rows) => (rows.length ? covered[rows[0].end] - covered[rows[0].begin] : 0));
  return numbers.sort((a, b) => {
    const [lineA, lineB] = [spans.lines[a], spans.lines[b]];
    if (lineA.device !== lineB.device) return lineA.device - lineB.device;
    if (homeOf(a) === homeOf(b)) return lineA.lane - lineB.lane;
    if (lineA.device >= 0) return lineA.number - lineB.number;
    return busy[homeOf(b)] - busy[homeOf(a)] || homeOf(a) - homeOf(b);
  });
}

// Lines with their lanes directly after them.
function pinnedFirst(spans: Spans, order: number[], pinned: readonly string[]): number[] {
  let name = "";
  const place = new Map(
    order.map((line) => {
      if (spans.lines[line].lane === 0) name = lineName(spans.lines[line]);
      return [line, pinned.includes(name) ? pinned.indexOf(name) : pinned.length];
    }),
  );
  return [...order].sort((a, b) => place.get(a)! - place.get(b)!);
}

function titles(line: Line): { title: string; subtitle: string } {
  if (line.lane > 0) return { title: "", subtitle: `overlap ${line.lane}` };
  if (line.device >= 0) return { title: `GPU ${line.device}`, subtitle: line.name };
  return { title: line.name || "thread", subtitle: line.number ? String(line.number) : "" };
}

export function lineName(line: Line): string {
  const { title, subtitle } = titles(line);
  const shown = [title || line.name || "thread", subtitle].filter(Boolean).join(" · ");
  return line.lane > 0 && line.number ? `${shown} of ${line.number}` : shown;
}
