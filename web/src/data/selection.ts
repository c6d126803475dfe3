// Statistics by name of what ran during a stretch of time.
import type { Spans } from "./spans";

export interface TimeRange {
  from: number;
  to: number;
}

export interface NameStatistics {
  label: number;
  calls: number; // spans that touch the range
  total: number; // time inside the range; of spans within spans of the same name only the outer count
  self: number; // that outside the spans directly inside them
  longest: number; // whole duration of the longest
  longestSpan: number;
}

export function statisticsOf(spans: Spans, range: TimeRange): NameStatistics[] {
  const byLabel: (NameStatistics | undefined)[] = new Array(spans.labels.length);
  forEachTouching(spans, range, (span, inside) => {
    const label = spans.label[span];
    const entry = (byLabel[label] ??= { label, calls: 0, total: 0, self: 0, longest: -1, longestSpan: -1 });
    entry.calls++;
    entry.self += inside;
    if (!spans.insideItself[span]) entry.total += inside;
    const parent = spans.parent[span];
    if (parent >= 0) byLabel[spans.label[parent]]!.self -= inside;
    const duration = spans.duration(span);
    if (duration > entry.longest) {
      entry.longest = duration;
      entry.longestSpan = span;
    }
  });
  return byLabel.filter((entry) => entry !== undefined);
}

// Calls back for every span that touches the range with its time inside; parents before children.
export function forEachTouching(
  spans: Spans,
  range: TimeRange,
  callback: (span: number, inside: number) => void,
): void {
  for (const rows of spans.rows) {
    for (const row of rows) {
      const last = spans.firstStartingAt(row, range.to, row.begin);
      for (let i = spans.firstEndingAfter(row, range.from); i < last; i++) {
        const span = spans.order[i];
        const inside = Math.min(spans.end[span], range.to) - Math.max(spans.start[span], range.from);
        callback(span, Math.max(inside, 0));
      }
    }
  }
}
