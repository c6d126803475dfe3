import { describe, expect, it } from "vitest";
import { statisticsOf } from "../src/data/selection";
import { buildFlame, selfValue, type FlameNode } from "../src/data/flame";
import { makeSpans, nestedSpans } from "./fixtures";

const spans = makeSpans([
  ["step", 0, 100],
  ["mm", 10, 40],
  ["empty", 12, 13],
  ["mm", 40, 60],
  ["mm", 45, 50],
]);

function byName(from: number, to: number) {
  return Object.fromEntries(
    statisticsOf(spans, { from, to }).map((entry) => [spans.labels[entry.label], entry]),
  );
}

describe("statisticsOf", () => {
  it("sums self and total, of nested calls of one name only the outer", () => {
    const all = byName(0, 100);
    expect(all["mm"]).toMatchObject({ calls: 3, total: 50, self: 49, longest: 30, longestSpan: 1 });
    expect(all["step"]).toMatchObject({ calls: 1, total: 100, self: 50 });
    expect(all["empty"]).toMatchObject({ calls: 1, total: 1, self: 1 });
  });

  it("counts only the time inside the range", () => {
    const part = byName(35, 47);
    expect(part["mm"]).toMatchObject({ calls: 3, total: 12, self: 12 });
    expect(part["step"]).toMatchObject({ total: 12, self: 0 });
    expect(part["empty"]).toBeUndefined();
  });

  it("finds nothing where nothing is", () => {
    expect(statisticsOf(makeSpans([]), { from: 0, to: 10 })).toEqual([]);
  });

  it.each([1, 2, 3])("self times add up to the time covered (seed %i)", (seed) => {
    const random = makeSpans(nestedSpans(300, seed));
    const range = { from: 100, to: random.maxTime * 0.7 };
    const self = statisticsOf(random, range).reduce((sum, entry) => sum + entry.self, 0);
    let covered = 0;
    for (let i = 0; i < random.count; i++) {
      if (random.parent[i] < 0)
        covered += Math.max(0, Math.min(random.end[i], range.to) - Math.max(random.start[i], range.from));
    }
    expect(self).toBe(covered);
  });
});

describe("buildFlame", () => {
  const outline = (node: FlameNode): unknown => [
    node.label < 0 ? (node.line < 0 ? "all" : `line ${node.line}`) : spans.labels[node.label],
    node.value,
    node.calls,
    ...node.children.map(outline),
  ];

  it("merges calls with the same stack, most time first", () => {
    expect(outline(buildFlame(spans, { from: 0, to: 100 }))).toEqual([
      "all",
      100,
      1,
      ["line 0", 100, 1, ["step", 100, 1, ["mm", 50, 2, ["mm", 5, 1], ["empty", 1, 1]]]],
    ]);
  });

  it("can be narrowed to a stretch of time", () => {
    const mm = buildFlame(spans, { from: 39, to: 47 }).children[0].children[0].children[0];
    expect([mm.value, mm.calls, selfValue(mm)]).toEqual([8, 2, 6]);
  });

  it("shows steps as one", () => {
    const steps = makeSpans([
      ["ProfilerStep#1", 0, 10],
      ["a", 1, 2],
      ["ProfilerStep#2", 10, 20],
      ["a", 11, 14],
    ]);
    const [step] = buildFlame(steps, { from: 0, to: 20 }).children[0].children;
    expect([step.value, step.calls, step.children[0].value]).toEqual([20, 2, 4]);
  });
});

it("an instant of spans that overlap is of the one that began last", () => {
  const spans = makeSpans(
    [
      ["first", 0, 10],
      ["second", 5, 20, 1],
    ],
    { lanes: [0, 1], moved: { span: [0], until: [5], around: [-1] } },
  );
  expect([spans.selfTime(0), spans.selfTime(1)]).toEqual([5, 15]);
  const found = statisticsOf(spans, { from: 2, to: 8 });
  expect(found.map(({ self, total }) => [self, total])).toEqual([
    [3, 6],
    [3, 3],
  ]);
});

it("steps are no rows, and what overlaps others on a thread is counted once in the flame graph", () => {
  const spans = makeSpans(
    [
      ["ProfilerStep#0", 0, 100],
      ["aten::mm", 10, 40],
      ["wait", 50, 90],
      ["__enter__", 5, 95, 1],
    ],
    { lanes: [0, 1], waiting: ["wait"], moved: { span: [3, 1, 2], until: [95, 40, 90], around: [0, 3, 3] } },
  );
  const found = statisticsOf(spans, { from: 0, to: 100 });
  expect(found.map(({ label, self }) => [spans.labels[label], self])).toEqual([
    ["aten::mm", 30],
    ["wait", 40],
    ["__enter__", 20],
  ]);
  expect([...spans.waiting]).toEqual([0, 0, 1, 0]);
  expect(buildFlame(spans, { from: 0, to: 100 }).value).toBe(100);
});
