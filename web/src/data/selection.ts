// Statistics by name of spans in a period.
import type { Line } from "../contract";
import type { Spans } from "./spans";

export interface TimeRange {
  from: number;
  to: number;
}

export interface NameStatistics {
  label: number;
  calls: number; // spans that touch the range
  total: number; // time inside the range; of spans within spans of the same name only the outer count
  self: number; // time in which they were the innermost spans of their thread
  longest: number; // whole duration of the longest
  longestSpan: number;
}

// Without names of steps; waits come last.
export function statisticsOf(spans: Spans, range: TimeRange): NameStatistics[] {
  const byLabel: (NameStatistics | undefined)[] = new Array(spans.labels.length);
  const entryOf = (label: number): NameStatistics =>
    (byLabel[label] ??= { label, calls: 0, total: 0, self: 0, longest: -1, longestSpan: -1 });
  forEachTouching(spans, range, (span, inside) => {
    const entry = entryOf(spans.counted[span]);
    entry.calls++;
    if (!spans.insideItself[span]) entry.total += inside;
    const own = Math.min(spans.ownUntil[span], range.to) - Math.max(spans.start[span], range.from);
    entry.self += Math.max(own, 0);
    const around = spans.around[span];
    if (around >= 0) entryOf(spans.counted[around]).self -= Math.max(own, 0);
    keepLongest(entry, span, spans.duration(span));
  });
  return byLabel.filter((entry) => entry !== undefined && !spans.unranked[entry.label]) as NameStatistics[];
}

export function overlaps(line: Line): boolean {
  return line.lane > 0 && line.device < 0;
}

function keepLongest(entry: NameStatistics, span: number, duration: number): void {
  if (duration <= entry.longest) return;
  entry.longest = duration;
  entry.longestSpan = span;
}

// Calls back for every span that touches the range with its time inside; parents before children.
export function forEachTouching(
  spans: Spans,
  range: TimeRange,
  callback: (span: number, inside: number, line: number) => void,
): void {
  const { all } = spans;
  for (let line = 0; line < all.rows.length; line++) {
    for (const row of all.rows[line]) {
      const last = all.firstStartingAt(row, range.to, row.begin);
      for (let i = all.firstEndingAfter(row, range.from); i < last; i++) {
        const span = all.order[i];
        const inside = Math.min(spans.end[span], range.to) - Math.max(spans.start[span], range.from);
        callback(span, Math.max(inside, 0), line);
      }
    }
  }
}
