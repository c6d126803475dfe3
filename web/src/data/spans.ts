// Every span of the trace in typed arrays, ordered by line and by start.
import { Kind, type Line, type SpanSection, type SpanWindow } from "../contract";
import { SpanRows } from "./rows";
import type { Columns } from "./unpack";

const STEP = /^ProfilerStep#\d+$/;
const MERGED = "(shorter spans: zoom in)";

export class Spans {
  readonly count: number;
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly label: Int32Array;
  readonly parent: Int32Array; // the span around it on its line
  readonly ownUntil: Float64Array; // end of its self time,
  readonly around: Int32Array; // and the span around it by time: the nesting of a thread's spans
  readonly insideItself: Uint8Array; // 1 for a span within another of the same name
  readonly lines: Line[];
  readonly lineStarts: number[];
  readonly all: SpanRows;
  shown: SpanRows; // `all`, or without Python's calls
  readonly labels: string[];
  readonly merged: Int32Array; // by label: the label that represents it when steps are merged
  readonly kinds: number[];
  readonly waiting: Uint8Array; // 1 for a label of a wait
  readonly unranked: Uint8Array; // 1 for a label of a step or of the recorder
  readonly unfinished: Set<number>;
  readonly maxTime: number;
  readonly window: SpanWindow | null; // if these are not all spans of the recording
  readonly counted: Int32Array; // the label that a span's time is counted under
  private readonly stands: Float64Array | undefined; // number of merged spans; 0 for a single span

  private readonly own: Float64Array;
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
    const isMerged = !!columns.merged?.length;
    if (isMerged) {
      this.labels = [...labels.text, MERGED];
      this.kinds = [...labels.kind, -1];
    }
    this.waiting = marked(labels.waiting, this.labels.length);
    this.unranked = marked(labels.unranked, this.labels.length);
    const step = this.labels.findIndex((text) => STEP.test(text));
    this.merged = Int32Array.from(this.labels, (text, i) => (STEP.test(text) ? step : i));
    this.unfinished = new Set(section.unfinished);
    this.inputs = columns.inputs;
    this.inputTexts = section.inputs;
    this.arrowSource = columns.arrowSource;
    this.arrowTarget = columns.arrowTarget;
    this.label = Int32Array.from(columns.label);
    this.window = section.window ?? null;
    this.stands = columns.merged?.length ? columns.merged : undefined;
    const { stands } = this;
    this.counted = stands
      ? this.label.map((label, i) => (stands[i] > 1 ? this.labels.length - 1 : label))
      : this.label;
    this.start = absoluteTimes(columns.start, lineStarts);
    this.end = new Float64Array(this.count);
    for (let i = 0; i < this.count; i++) this.end[i] = this.start[i] + columns.duration[i];
    this.maxTime = this.end.reduce((a, b) => Math.max(a, b), 0);
    this.parent = new Int32Array(this.count);
    this.insideItself = new Uint8Array(this.count);
    for (let line = 0; line < lines.length; line++) this.nest(lineStarts[line], lineStarts[line + 1]);
    this.ownUntil = this.end.slice();
    this.around = this.parent.slice();
    section.moved.span.forEach((span, i) => {
      this.ownUntil[span] = section.moved.until[i];
      this.around[span] = section.moved.around[i];
    });
    this.own = new Float64Array(this.count);
    for (let i = 0; i < this.count; i++) {
      const passed = this.ownUntil[i] - this.start[i];
      this.own[i] += passed;
      if (this.around[i] >= 0) this.own[this.around[i]] -= passed;
    }
    this.all = this.shown = new SpanRows(this);
  }

  get hasPython(): boolean {
    return this.kinds.some(isPython);
  }

  // Calls of Python and C functions are most of the depth of a recording with stacks.
  showPython(show: boolean): void {
    this.shown = show ? this.all : new SpanRows(this, isPython);
  }

  // Python calls that start at one of these times; the outermost for each time.
  callsStartingAt(starts: number[]): number[] {
    const found = new Map<number, number>();
    const wanted = new Set(starts);
    for (let span = 0; span < this.count; span++) {
      const start = this.start[span];
      if (wanted.has(start) && !found.has(start) && isPython(this.kind(span))) found.set(start, span);
    }
    return starts.flatMap((start) => found.get(start) ?? []);
  }

  // Span with this name, line and time; -1 for none.
  same(line: Line, start: number, end: number, name: string): number {
    const number = this.lines.findIndex(
      (one) =>
        one.name === line.name &&
        one.number === line.number &&
        one.device === line.device &&
        one.lane === line.lane,
    );
    if (number < 0) return -1;
    const last = this.lineStarts[number + 1];
    for (let i = firstAtLeast(this.start, start, this.lineStarts[number], last); i < last; i++) {
      if (this.start[i] !== start) break;
      if (this.end[i] === end && this.labels[this.label[i]] === name) return i;
    }
    return -1;
  }

  duration(span: number): number {
    return this.end[span] - this.start[span];
  }

  name(span: number): string {
    const name = this.labels[this.label[span]] || "(no name)";
    const stands = this.stands?.[span] ?? 0;
    return stands > 1 ? `${stands} short spans, the longest ${name}` : name;
  }

  // Name of a label of `merged`.
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

  // Time in which it was the innermost span of its thread.
  selfTime(span: number): number {
    return this.own[span];
  }

  children(span: number): number[] {
    const found: number[] = [];
    const last = this.lineStarts[this.lineOf(span) + 1];
    for (let i = span + 1; i < last && this.parent[i] >= span; i++) {
      if (this.parent[i] === span) found.push(i);
    }
    return found;
  }

  // The span itself or the nearest operator around it with arrows: autograd links nodes, and users
  // point at spans inside them.
  withArrows(span: number): number {
    const kind = this.kind(span);
    for (let above = span; above >= 0 && this.kind(above) === kind; above = this.parent[above])
      if (this.arrowsFrom(above).length || this.arrowsTo(above).length) return above;
    return span;
  }

  forEachArrow(visit: (source: number, target: number) => void): void {
    for (let i = 0; i < this.arrowSource.length; i++) visit(this.arrowSource[i], this.arrowTarget[i]);
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

  // Parents of the spans of one line, by the rule of their placement.
  private nest(first: number, last: number): void {
    const { start, end, parent, label } = this;
    const open: number[] = [];
    const openOfLabel = new Map<number, number>();
    for (let i = first; i < last; i++) {
      while (open.length && end[open[open.length - 1]] <= start[i]) {
        const closed = label[open.pop()!];
        openOfLabel.set(closed, openOfLabel.get(closed)! - 1);
      }
      parent[i] = open.length ? open[open.length - 1] : -1;
      const around = openOfLabel.get(label[i]) ?? 0;
      this.insideItself[i] = around > 0 ? 1 : 0;
      openOfLabel.set(label[i], around + 1);
      open.push(i);
    }
  }
}

function marked(labels: number[], count: number): Uint8Array {
  const marks = new Uint8Array(count);
  for (const label of labels) marks[label] = 1;
  return marks;
}

export function isPython(kind: number): boolean {
  return kind === Kind.pythonCall || kind === Kind.cCall;
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
export function firstAtLeast(
  values: ArrayLike<number>,
  value: number,
  low = 0,
  high = values.length,
): number {
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
