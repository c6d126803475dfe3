// Finding spans by name: plain text, or a regular expression between slashes.
import { isPython, type Spans } from "./spans";

export class Search {
  readonly matches: Uint8Array; // by label
  readonly spanCount: number;
  readonly labelCount: number;
  readonly totalTime: number; // of the outermost matching spans
  readonly problem: string; // error of the regular expression; empty for a valid one and for plain text

  constructor(
    private readonly spans: Spans,
    readonly text: string,
    readonly exact = false,
  ) {
    this.problem = exact ? "" : problemOf(text);
    const test = exact ? (name: string) => name === text : matcher(text);
    this.matches = Uint8Array.from(spans.labels, (name) => (test(name) ? 1 : 0));
    let spanCount = 0;
    let totalTime = 0;
    const insideMatch = new Uint8Array(spans.count); // parents come before their children
    for (let i = 0; i < spans.count; i++) {
      const parent = spans.parent[i];
      if (parent >= 0 && (insideMatch[parent] || this.has(parent))) insideMatch[i] = 1;
      if (!this.has(i)) continue;
      spanCount++;
      if (!insideMatch[i]) totalTime += spans.duration(i);
    }
    this.spanCount = spanCount;
    this.labelCount = this.matches.reduce((sum, match) => sum + match, 0);
    this.totalTime = totalTime;
  }

  has(span: number): boolean {
    return this.matches[this.spans.label[span]] === 1;
  }

  // Whether all matches are Python calls, which the timeline may hide.
  get onlyPython(): boolean {
    return this.spans.kinds.every((kind, label) => !this.matches[label] || isPython(kind));
  }

  anyIn(from: number, to: number): boolean {
    const { count, start, end } = this.spans;
    for (let i = 0; i < count; i++) if (this.has(i) && end[i] >= from && start[i] <= to) return true;
    return false;
  }

  // 1 for each of `width` equal parts of the recording in which a match ran.
  presence(duration: number, width: number): Uint8Array {
    const marks = new Uint8Array(width);
    const { count, start, end } = this.spans;
    const perPixel = duration / width;
    for (let i = 0; i < count; i++) {
      if (!this.has(i)) continue;
      const first = Math.max(0, Math.min(width - 1, Math.floor(start[i] / perPixel)));
      const last = Math.max(first, Math.min(width - 1, Math.floor(end[i] / perPixel)));
      if (!marks[first] || !marks[last]) marks.fill(1, first, last + 1);
    }
    return marks;
  }

  // The match nearest after (or before) a span in time over all lines, starting over at the end.
  next(from: number, direction: 1 | -1): number {
    const time = from >= 0 ? this.spans.start[from] : direction > 0 ? -Infinity : Infinity;
    let best = -1;
    let wrapped = -1;
    for (let i = 0; i < this.spans.count; i++) {
      if (!this.has(i) || i === from) continue;
      if (this.isBetter(i, wrapped, direction)) wrapped = i;
      const ahead = (this.spans.start[i] - time) * direction;
      if ((ahead > 0 || (ahead === 0 && (i - from) * direction > 0)) && this.isBetter(i, best, direction))
        best = i;
    }
    return best >= 0 ? best : wrapped >= 0 ? wrapped : from >= 0 && this.has(from) ? from : -1;
  }

  private isBetter(span: number, than: number, direction: 1 | -1): boolean {
    if (than < 0) return true;
    const difference = (this.spans.start[span] - this.spans.start[than]) * direction;
    return difference < 0 || (difference === 0 && (span - than) * direction < 0);
  }
}

// Error of a regular expression; empty for a valid one and for plain text.
export function problemOf(text: string): string {
  const pattern = /^\/(.+)\/(i?)$/.exec(text);
  if (!pattern) return "";
  try {
    new RegExp(pattern[1], pattern[2]);
    return "";
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^.*\/: /, "") : String(error);
    return `not a regular expression: ${reason}`;
  }
}

export function matcher(text: string): (name: string) => boolean {
  const pattern = /^\/(.+)\/(i?)$/.exec(text);
  if (pattern) {
    try {
      const expression = new RegExp(pattern[1], pattern[2]);
      return (name) => expression.test(name);
    } catch {
      return () => false; // incomplete or invalid: see problemOf
    }
  }
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (name) => {
    const lower = name.toLowerCase();
    return words.every((word) => lower.includes(word));
  };
}
