// Spans from a readable description: [name, start, end, line].
import type { MovedSpans, SpanSection } from "../src/contract";
import { Spans } from "../src/data/spans";
import type { Columns } from "../src/data/unpack";

export type Described = [name: string, start: number, end: number, line?: number];

export interface Extra {
  kinds?: Record<string, number>;
  inputs?: string[]; // of every span, "" for none
  arrows?: [number, number][];
  devices?: number[]; // of every line
  lanes?: number[]; // likewise
  waiting?: string[]; // names
  moved?: MovedSpans;
}

// Descriptions must be in order of line, then start.
export function makeSpans(described: Described[], extra: Extra = {}): Spans {
  const names = [...new Set(described.map(([name]) => name))];
  const lineCount = Math.max(0, ...described.map(([, , , line]) => line ?? 0)) + 1;
  const lineStarts = Array.from(
    { length: lineCount + 1 },
    (_, line) => described.filter(([, , , l]) => (l ?? 0) < line).length,
  );
  const inputs = [...new Set((extra.inputs ?? []).filter(Boolean))];
  const section: SpanSection = {
    lines: Array.from({ length: lineCount }, (_, i) => ({
      name: `t${i}`,
      number: 100 + i,
      device: extra.devices?.[i] ?? -1,
      lane: extra.lanes?.[i] ?? 0,
      home: i,
    })),
    lineStarts,
    labels: {
      text: names,
      kind: names.map((name) => extra.kinds?.[name] ?? 0),
      waiting: rowsOf(names, extra.waiting ?? []),
      unranked: names.flatMap((name, i) => (/^ProfilerStep#/.test(name) ? [i] : [])),
    },
    unfinished: [],
    inputs,
    moved: extra.moved ?? { span: [], until: [], around: [] },
  };
  const start = described.map(([, from], i) => (lineStarts.includes(i) ? from : from - described[i - 1][1]));
  const columns: Columns = {
    start: Float64Array.from(start),
    duration: Float64Array.from(described, ([, from, to]) => to - from),
    label: Float64Array.from(described, ([name]) => names.indexOf(name)),
    inputs: Float64Array.from(extra.inputs ?? [], (text) => inputs.indexOf(text) + 1),
    arrowSource: Float64Array.from(extra.arrows ?? [], ([source]) => source),
    arrowTarget: Float64Array.from(extra.arrows ?? [], ([, target]) => target),
  };
  return new Spans(section, columns);
}

function rowsOf(names: string[], chosen: string[]): number[] {
  return chosen.map((name) => names.indexOf(name));
}

// A repeatable stream of numbers from 0 to 1.
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

// Random nested spans on one line.
export function nestedSpans(count: number, seed: number): Described[] {
  const next = random(seed);
  const described: Described[] = [];
  const fill = (from: number, to: number, depth: number) => {
    let time = from;
    while (time < to && described.length < count) {
      const start = time + Math.floor(next() * 5);
      const end = Math.min(to, start + Math.floor(next() * 40));
      if (start >= to) break;
      described.push([`n${Math.floor(next() * 6)}`, start, end]);
      if (depth < 6 && next() < 0.6 && end > start) fill(start, end, depth + 1);
      time = Math.max(end, time + 1);
    }
  };
  fill(0, 1e9, 0);
  return described;
}
