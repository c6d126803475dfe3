import { describe, expect, it } from "vitest";
import { Kind } from "../src/contract";
import { makeSpans } from "./fixtures";

// main calls a function that runs two operators; the second contains a third.
const described: [string, number, number][] = [
  ["main", 0, 100],
  ["step", 5, 95],
  ["forward", 10, 90],
  ["aten::linear", 20, 40],
  ["aten::relu", 50, 80],
  ["aten::clamp", 55, 75],
];
const kinds = { main: Kind.pythonCall, step: Kind.annotation, forward: Kind.cCall };

describe("rows without Python's calls", () => {
  it("close up, in order of start", () => {
    const spans = makeSpans(described, { kinds });
    spans.showPython(false);
    const { shown, all } = spans;
    const names = shown.rows[0].map((row) =>
      [...shown.order.slice(row.begin, row.end)].map((i) => spans.name(i)),
    );
    expect(names).toEqual([["step"], ["aten::linear", "aten::relu"], ["aten::clamp"]]);
    expect([...shown.covered]).toEqual([0, 90, 110, 140, 160]);
    expect(all.rows[0].length).toBe(5);
  });

  it("know what is around and inside what is left", () => {
    const spans = makeSpans(described, { kinds });
    spans.showPython(false);
    const { shown } = spans;
    expect([0, 1, 2, 3].map((i) => shown.has(i))).toEqual([false, true, false, true]);
    expect(shown.parent(3)).toBe(1);
    expect(shown.firstInside(1)).toBe(3);
    expect(shown.firstInside(3)).toBe(-1);
    expect(shown.parent(1)).toBe(-1);
  });

  it("come back, and lines of nothing else stay empty meanwhile", () => {
    const spans = makeSpans([...described, ["main", 0, 10, 1]], { kinds });
    spans.showPython(false);
    expect(spans.shown.rows[1]).toEqual([]);
    spans.showPython(true);
    expect(spans.shown).toBe(spans.all);
    expect(spans.hasPython).toBe(true);
    expect(makeSpans([["aten::mm", 0, 1]]).hasPython).toBe(false);
  });
});

describe("arrows", () => {
  it("of a node are shown for what runs in it, not for what is around it", () => {
    const spans = makeSpans(
      [
        ["aten::mm", 0, 10],
        ["step", 20, 90],
        ["MmBackward0", 30, 80],
        ["aten::t", 40, 50],
      ],
      { kinds: { step: Kind.annotation }, arrows: [[0, 2]] },
    );
    expect([0, 1, 2, 3].map((span) => spans.withArrows(span))).toEqual([0, 1, 2, 2]);
  });
});
