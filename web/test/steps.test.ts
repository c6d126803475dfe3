import { describe, expect, it } from "vitest";
import type { StepSection } from "../src/contract";
import { explainSlowest, median, typicalStep } from "../src/panels/step_facts";

function steps(parts: [forward: number, backward: number, other: number][]): StepSection {
  const duration = parts.map(([a, b, c]) => a + b + c);
  return {
    what: "",
    number: parts.map((_, i) => i + 5),
    start: duration.map((_, i) => i * 1000),
    duration,
    busy: parts.map(([a, b]) => a + b),
    deviceBusy: parts.map(() => 0),
    events: parts.map(() => 1),
    phases: ["forward", "backward"],
    phaseTimes: parts.map(([a, b]) => [a, b]),
    causes: ["operators"],
    causeMeanings: ["Operators doing what they are for."],
    causeTimes: parts.map(([a, b]) => [a + b]),
    labels: [],
    labelTimes: parts.map(() => []),
    allSteps: parts.length,
  };
}

describe("explainSlowest", () => {
  it("names the part that grew", () => {
    const sentence = explainSlowest(
      steps([
        [10, 10, 5],
        [10, 11, 5],
        [10, 40, 6],
        [10, 10, 5],
      ]),
    );
    expect(sentence).toBe(
      "Step 7 was the slowest: 56.0 ns, 2.2 times the median. Most of that is backward: 29.5 ns more than the median.",
    );
  });

  it("blames Python where nothing recorded grew", () => {
    expect(
      explainSlowest(
        steps([
          [10, 10, 0],
          [10, 10, 0],
          [10, 10, 30],
        ]),
      ),
    ).toContain("Python or waiting: 30.0 ns more");
  });

  it("says when there is nothing to say", () => {
    expect(
      explainSlowest(
        steps([
          [10, 10, 0],
          [10, 11, 0],
        ]),
      ),
    ).toContain("within 10%");
    expect(explainSlowest(steps([[1, 1, 1]]))).toContain("Only one step");
  });
});

describe("a typical step", () => {
  it("is the one nearest to the median", () => {
    expect(
      typicalStep(
        steps([
          [1, 0, 0],
          [50, 0, 0],
          [20, 0, 0],
          [22, 0, 0],
          [90, 0, 0],
        ]),
      ),
    ).toBe(3);
    expect(median([])).toBe(0);
  });
});
