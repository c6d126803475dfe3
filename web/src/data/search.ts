// Finding spans by name: plain text, or a regular expression between slashes.
import type { Spans } from "./spans";

export class Search {
  readonly matches: Uint8Array; // by label
  readonly spanCount: number;
  readonly labelCount: number;
  readonly totalTime: number; // of the outermost matching spans

  constructor(
    private readonly spans: Spans,
    readonly text: string,
    readonly exact = false,
  ) {
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

export function matcher(text: string): (name: string) => boolean {
  const pattern = /^\/(.+)\/(i?)$/.exec(text);
  if (pattern) {
    try {
      const expression = new RegExp(pattern[1], pattern[2]);
      return (name) => expression.test(name);
    } catch {
      return () => false; // not finished being typed
    }
  }
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (name) => {
    const lower = name.toLowerCase();
    return words.every((word) => lower.includes(word));
  };
}
