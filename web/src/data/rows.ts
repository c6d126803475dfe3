// Spans row by row, as they are drawn: spans of one row never overlap, so whatever is visible is
// found by binary search. If a kind of span is hidden, spans inside move up.

// One depth of one line: spans order[begin..end) in order of start.
export interface Row {
  begin: number;
  end: number;
}

// Input of rows.
interface Placed {
  readonly count: number;
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly label: Int32Array;
  readonly parent: Int32Array;
  readonly kinds: number[];
  readonly lines: unknown[];
  readonly lineStarts: number[];
  lineOf(span: number): number;
  selfTime(span: number): number;
}

const NOWHERE = 0xffff;
const MOST_COMPARED = 16; // spans of one pixel

export class SpanRows {
  readonly depth: Uint16Array; // by span; undefined for hidden spans
  readonly rows: Row[][]; // by line, by depth
  readonly order: Int32Array; // spans row by row
  readonly covered: Float64Array; // time in spans of `order` before each position
  readonly count: number;

  constructor(
    private readonly spans: Placed,
    isLeftOut: (kind: number) => boolean = () => false,
  ) {
    const { lines, lineStarts } = spans;
    const leftOut = Uint8Array.from(spans.kinds, (kind) => (isLeftOut(kind) ? 1 : 0));
    this.depth = new Uint16Array(spans.count);
    const deepest = lines.map((_, line) => this.nest(lineStarts[line], lineStarts[line + 1], leftOut));
    this.order = new Int32Array(spans.count);
    let begin = 0;
    this.rows = lines.map((_, line) => {
      const rows = this.sort(lineStarts[line], lineStarts[line + 1], deepest[line], begin);
      begin = rows.length ? rows[rows.length - 1].end : begin;
      return rows;
    });
    this.count = begin;
    this.covered = new Float64Array(begin + 1);
    for (let i = 0; i < begin; i++) {
      const span = this.order[i];
      this.covered[i + 1] = this.covered[i] + spans.end[span] - spans.start[span];
    }
  }

  has(span: number): boolean {
    return this.depth[span] !== NOWHERE;
  }

  // Nearest shown ancestor; -1 for none.
  parent(span: number): number {
    let above = this.spans.parent[span];
    while (above >= 0 && !this.has(above)) above = this.spans.parent[above];
    return above;
  }

  // First shown descendant; -1 for none.
  firstInside(span: number): number {
    const { spans } = this;
    const last = spans.lineStarts[spans.lineOf(span) + 1];
    for (let i = span + 1; i < last && spans.start[i] < spans.end[span]; i++) {
      if (this.has(i)) return this.parent(i) === span ? i : -1;
    }
    return -1;
  }

  // Positions in `order` of the spans of a row that touch [from, to].
  visible(row: Row, from: number, to: number): [number, number] {
    return [this.firstEndingAfter(row, from), this.firstStartingAt(row, to, row.begin)];
  }

  firstEndingAfter(row: Row, time: number): number {
    const { end } = this.spans;
    let low = row.begin;
    let high = row.end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end[this.order[middle]] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The first position from `low` on whose span starts at `time` or later. Looks nearby first:
  // drawing goes from pixel to pixel.
  firstStartingAt(row: Row, time: number, low: number): number {
    const { start } = this.spans;
    let step = 1;
    let high = low;
    while (high < row.end && start[this.order[high]] < time) {
      low = high + 1;
      high += step;
      step *= 2;
    }
    if (high > row.end) high = row.end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[this.order[middle]] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Span with the largest self time among some positions; of many positions, a sample.
  longest(first: number, last: number): number {
    const step = Math.max(1, Math.floor((last - first) / MOST_COMPARED));
    let best = this.order[first];
    for (let i = first + step; i < last; i += step) {
      if (this.spans.selfTime(this.order[i]) > this.spans.selfTime(best)) best = this.order[i];
    }
    return best;
  }

  // The span of a row at a time, or the nearest one within `slack`; -1 for none.
  at(row: Row, time: number, slack: number): number {
    const { start, end } = this.spans;
    const position = this.firstEndingAfter(row, time);
    const next = position < row.end ? this.order[position] : -1;
    if (next >= 0 && start[next] <= time) return next;
    const previous = position > row.begin ? this.order[position - 1] : -1;
    const after = next >= 0 ? start[next] - time : Infinity;
    const before = previous >= 0 ? time - end[previous] : Infinity;
    if (Math.min(after, before) > slack) return -1;
    return after < before ? next : previous;
  }

  // Depth of the spans of one line among the shown ones. Returns the number of rows.
  private nest(first: number, last: number, leftOut: Uint8Array): number {
    const { start, end, label } = this.spans;
    const open: number[] = [];
    let deepest = 0;
    for (let i = first; i < last; i++) {
      if (leftOut[label[i]]) {
        this.depth[i] = NOWHERE;
        continue;
      }
      while (open.length && end[open[open.length - 1]] <= start[i]) open.pop();
      this.depth[i] = Math.min(open.length, NOWHERE - 1);
      open.push(i);
      if (open.length > deepest) deepest = open.length;
    }
    return deepest;
  }

  // A counting sort by depth keeps the order of start within a row.
  private sort(first: number, last: number, deepest: number, begin: number): Row[] {
    const counts = new Int32Array(deepest);
    for (let i = first; i < last; i++) if (this.has(i)) counts[this.depth[i]]++;
    const rows: Row[] = [];
    for (const count of counts) {
      rows.push({ begin, end: begin + count });
      begin += count;
    }
    const next = Int32Array.from(rows, (row) => row.begin);
    for (let i = first; i < last; i++) if (this.has(i)) this.order[next[this.depth[i]]++] = i;
    return rows;
  }
}
