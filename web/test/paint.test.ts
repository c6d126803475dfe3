// What reaches the canvas: every span that is visible, at a cost bounded by pixels.
import { describe, expect, it } from "vitest";
import { SpanColors } from "../src/colors";
import { Activities } from "../src/data/activities";
import { Search } from "../src/data/search";
import type { Spans } from "../src/data/spans";
import type { State } from "../src/state";
import { SpanPainter } from "../src/view/paint";
import { makeSpans, nestedSpans, type Described } from "./fixtures";

interface Rect {
  color: string;
  x: number;
  y: number;
  width: number;
}

function paint(
  spans: Spans,
  from: number,
  perPixel: number,
  width: number,
  search: string | null = null,
): Rect[] {
  const rects: Rect[] = [];
  const state = {
    spans,
    colors: new SpanColors(spans, new Activities(spans), false),
    search: search === null ? null : new Search(spans, search),
    theme: { muted: "muted", spanText: "black", dim: "grey" },
  } as unknown as State;
  const painter = new SpanPainter(state);
  spans.all.rows[0].forEach((row, depth) => painter.addRow(row, depth * 18, from, perPixel, width));
  let fillStyle = "";
  painter.flush({
    set fillStyle(value: string) {
      fillStyle = value;
    },
    fillRect: (x: number, y: number, w: number) => rects.push({ color: fillStyle, x, y, width: w }),
    measureText: (text: string) => ({ width: text.length * 6 }),
    fillText: () => undefined,
  } as unknown as CanvasRenderingContext2D);
  return rects;
}

describe("SpanPainter", () => {
  it("draws wide spans to scale", () => {
    const rects = paint(
      makeSpans([
        ["a", 0, 100],
        ["b", 20, 60],
      ]),
      0,
      1,
      200,
    );
    expect(rects.map(({ x, y, width }) => [x, y, width])).toEqual(
      expect.arrayContaining([
        [0, 0, 99.5],
        [20, 18, 39.5],
      ]),
    );
  });

  it("draws a wide span that begins in the pixel where a narrow one was", () => {
    const rects = paint(
      makeSpans([
        ["tiny", 0, 1],
        ["wide", 2, 5000],
      ]),
      0,
      10,
      600,
    );
    expect(rects.some(({ width }) => width > 400)).toBe(true);
  });

  it("draws no more than the pixels of a row, whatever the number of spans", () => {
    const many: Described[] = Array.from({ length: 50_000 }, (_, i) => [`n${i % 3}`, i * 10, i * 10 + 8]);
    const rects = paint(makeSpans(many), 0, 1000, 500);
    expect(rects.length).toBeLessThanOrEqual(501);
    expect(rects.reduce((sum, { width }) => sum + width, 0)).toBeGreaterThanOrEqual(499);
  });

  it.each([1, 2, 3])("leaves no visible span without a mark (seed %i)", (seed) => {
    const spans = makeSpans(nestedSpans(500, seed));
    const perPixel = spans.maxTime / 300;
    const rects = paint(spans, 0, perPixel, 300);
    for (let i = 0; i < spans.count; i++) {
      const x = spans.start[i] / perPixel;
      const y = spans.all.depth[i] * 18;
      expect(rects.some((r) => r.y === y && r.x <= x + 1 && r.x + r.width >= x - 1)).toBe(true);
    }
  });

  it("mutes what a search leaves out, pixel by pixel", () => {
    const spans = makeSpans([
      ["a", 0, 100],
      ["b", 200, 201],
      ["a", 201, 202],
      ["b", 300, 400],
    ]);
    const colors = paint(spans, 0, 10, 60, "a")
      .sort((p, q) => p.x - q.x)
      .map(({ color }) => color === "muted");
    expect(colors).toEqual([false, false, true]);
  });
});
