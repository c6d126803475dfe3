// What time is for: by a span's own name, else by what it is inside of, else by what launched it.
import { describe, expect, it } from "vitest";
import { ACTIVITIES, Activities } from "../src/data/activities";
import { buildFlame, isInternal } from "../src/data/flame";
import type { Spans } from "../src/data/spans";
import { Kind } from "../src/contract";
import { makeSpans } from "./fixtures";

function named(spans: Spans): [string, string][] {
  return [...new Activities(spans).ofSpan].map((activity, span) => [spans.name(span), ACTIVITIES[activity]]);
}

describe("Activities", () => {
  it("gives operators that of what they are inside of", () => {
    const spans = makeSpans([
      ["aten::mm", 0, 10],
      ["autograd::engine::evaluate_function: MmBackward0", 10, 30],
      ["aten::mm", 12, 20],
      ["aten::copy_", 20, 25],
      ["Optimizer.step#SGD.step", 30, 50],
      ["aten::add_", 31, 40],
      ["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 50, 60],
      ["aten::stack", 51, 55],
      ["gloo:all_reduce", 60, 70],
    ]);
    expect(named(spans).map(([, activity]) => activity)).toEqual([
      "forward",
      "backward",
      "backward",
      "memory",
      "optimizer",
      "optimizer",
      "data loading",
      "data loading",
      "communication",
    ]);
    const multiply = spans.labels.indexOf("aten::mm");
    expect(ACTIVITIES[new Activities(spans).ofLabel[multiply]]).toBe("forward"); // 10 of its 18
    expect(new Activities(spans).present).not.toContain("Python");
  });

  it("shows Python and waiting as themselves, and what runs in them by what is around", () => {
    const spans = makeSpans(
      [
        ["Optimizer.step#Adam.step", 0, 50],
        ["adam.py(10): step", 1, 40],
        ["aten::mul", 2, 10],
        ["lock", 41, 45],
      ],
      { kinds: { "adam.py(10): step": Kind.pythonCall }, waiting: ["lock"] },
    );
    expect(named(spans).map(([, activity]) => activity)).toEqual([
      "optimizer",
      "Python",
      "optimizer",
      "waiting",
    ]);
  });

  it("gives work on a device that of its launch", () => {
    const spans = makeSpans(
      [
        ["Optimizer.step#SGD.step", 0, 20],
        ["cudaLaunchKernel", 2, 4],
        ["elementwise", 10, 30, 1],
        ["unlaunched", 40, 50, 1],
      ],
      { kinds: { elementwise: Kind.kernel, unlaunched: Kind.kernel }, arrows: [[1, 2]] },
    );
    expect(named(spans).slice(2)).toEqual([
      ["elementwise", "optimizer"],
      ["unlaunched", "forward"],
    ]);
  });
});

describe("the flame graph without torch's internals", () => {
  it("stands what they call under what called them", () => {
    const inner = "torch/nn/modules/module.py(1): _call_impl";
    const spans = makeSpans([
      ["train.py(1): main", 0, 100],
      [inner, 10, 90],
      ["aten::mm", 20, 80],
    ]);
    const names = (internals: boolean) => {
      const main = buildFlame(spans, { from: 0, to: 100 }, internals).children[0].children[0];
      return main.children.map(({ label, value }) => [spans.labels[label], value]);
    };
    expect(names(true)).toEqual([[inner, 80]]);
    expect(names(false)).toEqual([["aten::mm", 60]]);
    expect(isInternal("mytorch/x.py(1): f")).toBe(false);
  });
});
