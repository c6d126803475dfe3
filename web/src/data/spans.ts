// Every span of the trace in typed arrays, ordered by line and by start, with the rows they are
// drawn on. Spans of one row never overlap, so whatever is visible is found by binary search.
import type { Line, SpanSection } from "../contract";
import type { Columns } from "./unpack";

const STEP = /^ProfilerStep#\d+$/;

// One depth of one line: spans order[begin..end) in order of start.
export interface Row {
  begin: number;
  end: number;
}

export class Spans {
  readonly count: number;
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly label: Int32Array;
  readonly depth: Uint16Array;
  readonly parent: Int32Array; // the span around it on its line
  readonly insideItself: Uint8Array; // 1 for a span within another of the same name
  readonly lines: Line[];
  readonly lineStarts: number[];
  readonly rows: Row[][]; // by line, by depth
  readonly order: Int32Array; // spans row by row
  readonly covered: Float64Array; // time in spans of `order` before each position; shape count + 1
  readonly labels: string[];
  readonly merged: Int32Array; // of a label: the one that stands for it where steps are one
  readonly kinds: number[];
  readonly unfinished: Set<number>;
  readonly maxTime: number;

  private readonly inputs: Float64Array;
  private readonly inputTexts: string[];
  private readonly arrowSource: Float64Array;
  private readonly arrowTarget: Float64Array;
  private arrowsByTarget: Map<number, number[]> | undefined;

  constructor(section: SpanSection, columns: Columns) {
    const { lines, lineStarts, labels } = section;
    this.count = columns.start.length;
    this.lines = lines;
    this.lineStarts = lineStarts;
    this.labels = labels.text;
    this.kinds = labels.kind;
    const step = this.labels.findIndex((text) => STEP.test(text));
    this.merged = Int32Array.from(this.labels, (text, i) => (STEP.test(text) ? step : i));
    this.unfinished = new Set(section.unfinished);
    this.inputs = columns.inputs;
    this.inputTexts = section.inputs;
    this.arrowSource = columns.arrowSource;
    this.arrowTarget = columns.arrowTarget;
    this.label = Int32Array.from(columns.label);
    this.start = absoluteTimes(columns.start, lineStarts);
    this.end = new Float64Array(this.count);
    for (let i = 0; i < this.count; i++) this.end[i] = this.start[i] + columns.duration[i];
    this.maxTime = this.end.reduce((a, b) => Math.max(a, b), 0);
    this.depth = new Uint16Array(this.count);
    this.parent = new Int32Array(this.count);
    this.insideItself = new Uint8Array(this.count);
    const deepest = lines.map((_, line) => this.nest(lineStarts[line], lineStarts[line + 1]));
    this.order = new Int32Array(this.count);
    this.rows = lines.map((_, line) =>
      this.sortIntoRows(lineStarts[line], lineStarts[line + 1], deepest[line]),
    );
    this.covered = new Float64Array(this.count + 1);
    for (let i = 0; i < this.count; i++) {
      const span = this.order[i];
      this.covered[i + 1] = this.covered[i] + this.end[span] - this.start[span];
    }
  }

  duration(span: number): number {
    return this.end[span] - this.start[span];
  }

  name(span: number): string {
    return this.labels[this.label[span]] || "(no name)";
  }

  // As `name`, for a label of `merged`.
  mergedName(label: number): string {
    const text = this.labels[label] || "(no name)";
    return STEP.test(text) ? "ProfilerStep*" : text;
  }

  kind(span: number): number {
    return this.kinds[this.label[span]];
  }

  inputsOf(span: number): string {
    const row = this.inputs[span];
    return row ? this.inputTexts[row - 1] : "";
  }

  lineOf(span: number): number {
    return lastAtOrBefore(this.lineStarts, span, this.lineStarts.length - 1);
  }

  // Duration outside the spans directly inside.
  selfTime(span: number): number {
    let own = this.duration(span);
    for (const child of this.children(span)) own -= this.duration(child);
    return own;
  }

  children(span: number): number[] {
    const found: number[] = [];
    const last = this.lineStarts[this.lineOf(span) + 1];
    for (let i = span + 1; i < last && this.depth[i] > this.depth[span]; i++) {
      if (this.parent[i] === span) found.push(i);
    }
    return found;
  }

  arrowsFrom(span: number): number[] {
    const found: number[] = [];
    for (let i = firstAtLeast(this.arrowSource, span); this.arrowSource[i] === span; i++)
      found.push(this.arrowTarget[i]);
    return found;
  }

  arrowsTo(span: number): number[] {
    if (!this.arrowsByTarget) {
      this.arrowsByTarget = new Map();
      for (let i = 0; i < this.arrowTarget.length; i++) {
        const sources = this.arrowsByTarget.get(this.arrowTarget[i]);
        if (sources) sources.push(this.arrowSource[i]);
        else this.arrowsByTarget.set(this.arrowTarget[i], [this.arrowSource[i]]);
      }
    }
    return this.arrowsByTarget.get(span) ?? [];
  }

  // Positions in `order` of the spans of a row that touch [from, to].
  visible(row: Row, from: number, to: number): [number, number] {
    return [this.firstEndingAfter(row, from), this.firstStartingAt(row, to, row.begin)];
  }

  firstEndingAfter(row: Row, time: number): number {
    let low = row.begin;
    let high = row.end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[this.order[middle]] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The first position from `low` on whose span starts at `time` or later. Looks nearby first:
  // drawing asks for one pixel after the other.
  firstStartingAt(row: Row, time: number, low: number): number {
    let step = 1;
    let high = low;
    while (high < row.end && this.start[this.order[high]] < time) {
      low = high + 1;
      high += step;
      step *= 2;
    }
    if (high > row.end) high = row.end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[this.order[middle]] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The span of a row at a time, or the nearest one within `slack`; -1 for none.
  at(row: Row, time: number, slack: number): number {
    const position = this.firstEndingAfter(row, time);
    const next = position < row.end ? this.order[position] : -1;
    if (next >= 0 && this.start[next] <= time) return next;
    const previous = position > row.begin ? this.order[position - 1] : -1;
    const after = next >= 0 ? this.start[next] - time : Infinity;
    const before = previous >= 0 ? time - this.end[previous] : Infinity;
    if (Math.min(after, before) > slack) return -1;
    return after < before ? next : previous;
  }

  // Depths and parents of one line, by the rule its spans were placed by. Returns its row count.
  private nest(first: number, last: number): number {
    const { start, end, depth, parent, label } = this;
    const open: number[] = [];
    const openOfLabel = new Map<number, number>();
    let deepest = 0;
    for (let i = first; i < last; i++) {
      while (open.length && end[open[open.length - 1]] <= start[i]) {
        const closed = label[open.pop()!];
        openOfLabel.set(closed, openOfLabel.get(closed)! - 1);
      }
      parent[i] = open.length ? open[open.length - 1] : -1;
      depth[i] = Math.min(open.length, 0xffff);
      const around = openOfLabel.get(label[i]) ?? 0;
      this.insideItself[i] = around > 0 ? 1 : 0;
      openOfLabel.set(label[i], around + 1);
      open.push(i);
      if (open.length > deepest) deepest = open.length;
    }
    return deepest;
  }

  // A counting sort by depth keeps the order of start within a row.
  private sortIntoRows(first: number, last: number, deepest: number): Row[] {
    const counts = new Int32Array(deepest);
    for (let i = first; i < last; i++) counts[this.depth[i]]++;
    const rows: Row[] = [];
    let begin = first;
    for (const count of counts) {
      rows.push({ begin, end: begin + count });
      begin += count;
    }
    const next = Int32Array.from(rows, (row) => row.begin);
    for (let i = first; i < last; i++) this.order[next[this.depth[i]]++] = i;
    return rows;
  }
}

function absoluteTimes(differences: Float64Array, lineStarts: number[]): Float64Array {
  const times = new Float64Array(differences.length);
  for (let line = 0; line + 1 < lineStarts.length; line++) {
    let time = 0;
    for (let i = lineStarts[line]; i < lineStarts[line + 1]; i++) times[i] = time += differences[i];
  }
  return times;
}

// The first position whose value is at least `value`, in ascending `values`.
export function firstAtLeast(values: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The last position before `limit` whose value is at most `value`.
function lastAtOrBefore(values: ArrayLike<number>, value: number, limit: number): number {
  let low = 0;
  let high = limit;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
