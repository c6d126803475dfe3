import { describe, expect, it } from "vitest";
import type { MemoryDevice, MemoryGroup } from "../src/contract";
import { bestParts, explainPeak, largestGroups } from "../src/panels/memory_facts";
import { stackTree } from "../src/panels/memory_flame";
import { visiblePoints } from "../src/view/memory_strip";

function group(name: string, bytes: number, before = 0): MemoryGroup {
  return { name, bytes, blocks: 1, before };
}

const none = { line: [], end: [] };

function device(changes: Partial<MemoryDevice>): MemoryDevice {
  return {
    device: "CPU",
    time: [0, 10],
    total: [0, 1000],
    byCategory: null,
    byPhase: { names: ["forward"], bytes: [[0, 1000]] },
    uncategorised: "",
    peakBytes: 1000,
    peakTime: 10,
    beforeBytes: 0,
    groups: {
      category: [],
      operator: [group("aten::mm", 1000)],
      module: [],
      function: [],
      phase: [],
      ...none,
    },
    stacks: [],
    blocks: [],
    ...changes,
  };
}

describe("the peak", () => {
  const groups = {
    category: [group("activation", 700), group("parameter", 290, 290), group("input", 10)],
    operator: [group("allocated before", 290, 290), group("aten::linear", 600)],
    module: [],
    function: [],
    phase: [group("forward", 1000)],
    ...none,
  };

  it("is told by category, leaving out what is too small to matter", () => {
    const sentence = explainPeak(device({ groups, beforeBytes: 290 }));
    expect(sentence).toBe(
      "70.0% activation, 29.0% parameter. Most was allocated by aten::linear: 600 B." +
        " 290 B of it was allocated before the recording.",
    );
  });

  it("is told by operator where nothing else is known", () => {
    expect(explainPeak(device({}))).toBe("100.0% aten::mm.");
    expect(largestGroups(device({ groups }), 2).map(({ name }) => name)).toEqual(["activation", "parameter"]);
  });

  it("may have been there all along", () => {
    expect(explainPeak(device({ beforeBytes: 1000 }))).toContain("before the recording");
  });

  it("is drawn by category if there are any", () => {
    const byCategory = { names: ["input"], bytes: [[0, 1000]] };
    expect(bestParts(device({ byCategory }))).toBe(byCategory);
    expect(bestParts(device({})).names).toEqual(["forward"]);
  });
});

describe("samples in few pixels", () => {
  const samples = { time: [0, 100, 101, 102, 103, 900], total: [1, 5, 9, 2, 3, 4] };

  it("keep the highest of a pixel, then what holds until the next", () => {
    const points = visiblePoints(samples, 0, 6, (time) => Math.min(time / 10, 100));
    expect(points).toEqual([
      { x: 0, end: 1, sample: 0 },
      { x: 1, end: 10, sample: 0 },
      { x: 10, end: 11, sample: 2 },
      { x: 11, end: 90, sample: 4 },
      { x: 90, end: 91, sample: 5 },
      { x: 91, end: 100, sample: 5 },
    ]);
  });

  it("are all there when they are far apart", () => {
    const points = visiblePoints(samples, 1, 5, (time) => Math.min((time - 100) * 50, 200));
    expect(points.map(({ sample }) => sample)).toEqual([1, 1, 2, 2, 3, 3, 4, 4]);
  });
});

describe("the flame graph of the peak", () => {
  it("adds up stacks that begin alike", () => {
    const root = stackTree([group("main;f;g", 600), group("main;h", 300), group("no stack", 100)]);
    expect([...root.children.keys()]).toEqual(["main", "no stack"]);
    const main = root.children.get("main")!;
    expect([root.bytes, main.bytes, main.children.get("f")!.children.get("g")!.bytes]).toEqual([
      1000, 900, 600,
    ]);
  });
});
