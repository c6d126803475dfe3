import { describe, expect, it } from "vitest";
import { firstAtLeast } from "../src/data/spans";
import { Search } from "../src/data/search";
import { makeSpans, nestedSpans, type Described } from "./fixtures";

describe("Spans", () => {
  const spans = makeSpans([
    ["step", 0, 100],
    ["mm", 10, 40],
    ["empty", 12, 13],
    ["mm", 40, 60],
    ["point", 60, 60],
    ["work", 5, 50, 1],
  ]);

  it("restores times and nesting", () => {
    expect([...spans.start]).toEqual([0, 10, 12, 40, 60, 5]);
    expect([...spans.end]).toEqual([100, 40, 13, 60, 60, 50]);
    expect([...spans.parent]).toEqual([-1, 0, 1, 0, 0, -1]);
    expect([...spans.all.depth]).toEqual([0, 1, 2, 1, 1, 0]);
    expect(spans.lineOf(4)).toBe(0);
    expect(spans.lineOf(5)).toBe(1);
  });

  it("knows children and self time", () => {
    expect(spans.children(0)).toEqual([1, 3, 4]);
    expect(spans.selfTime(0)).toBe(50);
    expect(spans.selfTime(1)).toBe(29);
    expect(spans.children(2)).toEqual([]);
  });

  it("finds what is visible in a row", () => {
    const row = spans.all.rows[0][1];
    const names = (from: number, to: number) => {
      const [first, last] = spans.all.visible(row, from, to);
      return [...spans.all.order.slice(first, last)];
    };
    expect(names(0, 1000)).toEqual([1, 3, 4]);
    expect(names(41, 50)).toEqual([3]);
    expect(names(0, 10)).toEqual([]);
    expect(names(70, 90)).toEqual([]);
  });

  it("finds the span under a time, or one close to it", () => {
    const row = spans.all.rows[0][1];
    expect(spans.all.at(row, 20, 0)).toBe(1);
    expect(spans.all.at(row, 62, 0)).toBe(-1);
    expect(spans.all.at(row, 62, 3)).toBe(4);
    expect(spans.all.at(row, 8, 3)).toBe(1);
  });

  it("marks spans within others of the same name, however deep", () => {
    const deep: Described[] = Array.from({ length: 30_000 }, (_, i) => [
      i % 2 ? "odd" : "even",
      i,
      60_000 - i,
    ]);
    const recursive = makeSpans([...deep, ["even", 70_000, 70_001]]);
    expect(recursive.insideItself.reduce((a, b) => a + b, 0)).toBe(29_998);
    expect([...recursive.insideItself.slice(0, 3), recursive.insideItself[30_000]]).toEqual([0, 0, 1, 0]);
    expect(new Search(recursive, "even").totalTime).toBe(60_001);
    expect(new Search(recursive, "odd").totalTime).toBe(59_998);
  });

  it("follows arrows both ways", () => {
    const linked = makeSpans(
      [
        ["a", 0, 1],
        ["b", 2, 3],
        ["c", 4, 5],
      ],
      {
        arrows: [
          [0, 1],
          [0, 2],
        ],
      },
    );
    expect(linked.arrowsFrom(0)).toEqual([1, 2]);
    expect(linked.arrowsTo(2)).toEqual([0]);
    expect(linked.arrowsFrom(1)).toEqual([]);
  });

  it("shows inputs where there are any", () => {
    const shaped = makeSpans(
      [
        ["a", 0, 1],
        ["b", 2, 3],
      ],
      { inputs: ["[2, 3]", ""] },
    );
    expect([shaped.inputsOf(0), shaped.inputsOf(1)]).toEqual(["[2, 3]", ""]);
    expect(spans.inputsOf(0)).toBe("");
  });

  it("merges steps under one name", () => {
    const steps = makeSpans([
      ["ProfilerStep#1", 0, 1],
      ["ProfilerStep#22", 2, 3],
      ["ProfilerStep#x", 4, 5],
    ]);
    expect([...steps.merged]).toEqual([0, 0, 2]);
    expect(steps.mergedName(0)).toBe("ProfilerStep*");
    expect(steps.mergedName(2)).toBe("ProfilerStep#x");
  });

  it("holds nothing without complaint", () => {
    const none = makeSpans([]);
    expect(none.count).toBe(0);
    expect(none.maxTime).toBe(0);
    expect(none.all.rows).toEqual([[]]);
  });

  it.each([1, 2, 3, 4, 5])("agrees with a plain search on random spans (seed %i)", (seed) => {
    const described = nestedSpans(400, seed);
    const random = makeSpans(described);
    expect(random.count).toBe(described.length);
    for (const rows of random.all.rows) {
      for (const row of rows) {
        for (let i = row.begin + 1; i < row.end; i++) {
          expect(random.start[random.all.order[i]]).toBeGreaterThanOrEqual(
            random.end[random.all.order[i - 1]],
          );
        }
        const [from, to] = [random.maxTime * 0.3, random.maxTime * 0.4];
        const [first, last] = random.all.visible(row, from, to);
        const expected = [...random.all.order.slice(row.begin, row.end)].filter(
          (s) => random.end[s] >= from && random.start[s] < to,
        );
        expect([...random.all.order.slice(first, last)]).toEqual(expected);
        const total = expected.reduce((sum, s) => sum + random.duration(s), 0);
        expect(random.all.covered[last] - random.all.covered[first]).toBe(total);
      }
    }
  });
});

describe("firstAtLeast", () => {
  it("is a lower bound", () => {
    expect([0, 1, 2, 4, 5].map((v) => firstAtLeast([1, 2, 2, 4], v))).toEqual([0, 0, 1, 3, 4]);
  });
});
