import { describe, expect, it } from "vitest";
import type { RankSection } from "../src/contract";
import { NONE, RankTimes, explainRanks, ranksPerRow } from "../src/panels/rank_facts";

function section(ranks: number, steps: number): RankSection {
  return {
    names: Array.from({ length: ranks }, (_, rank) => `rank ${rank}`),
    onTimeline: Array.from({ length: ranks }, () => true),
    steps: Array.from({ length: steps }, (_, step) => step + 3),
    allSteps: steps,
    what: "",
    causes: ["operators"],
    causeMeanings: ["Operators doing what they are for."],
    causeTimes: Array.from({ length: ranks }, () => [1]),
  };
}

// Times by rank and step, as the page has them.
function times(values: number[][]): RankTimes {
  const packed = values.flat().map((value) => (value === NONE ? 0 : value + 1));
  return new RankTimes(Float64Array.from(packed), values.length);
}

describe("RankTimes", () => {
  it("knows which rank has no such step", () => {
    const found = times([
      [5, NONE],
      [0, 7],
    ]);
    expect(found.at(0, 0)).toBe(5);
    expect(found.at(0, 1)).toBe(NONE);
    expect(found.at(1, 0)).toBe(0);
    expect(found.ofRank(0)).toEqual([5]);
    expect(found.ofStep(1)).toEqual([7]);
    expect(found.middles()).toEqual([2.5, 7]);
  });

  it("may be of nobody", () => {
    expect(new RankTimes(new Float64Array(), 0).middles()).toEqual([]);
  });
});

describe("explainRanks", () => {
  it("names who takes longest without others", () => {
    const own = times([
      [100, 100],
      [100, 110],
      [200, 220],
    ]);
    expect(explainRanks(section(3, 2), own)).toBe(
      "Without waiting for others, rank 2 takes longest for a step: 210 ns, 100.0% more than the middle one.",
    );
  });

  it("says that all are alike", () => {
    const own = times([[100], [101], [102]]);
    expect(explainRanks(section(3, 1), own)).toContain("All are alike");
  });

  it("compares nothing where there is nothing to compare", () => {
    expect(explainRanks(section(2, 1), times([[100], [NONE]]))).toContain("nothing to compare");
    expect(explainRanks(section(1, 1), times([[100]]))).toContain("nothing to compare");
  });
});

describe("ranksPerRow", () => {
  it("is one until there are more ranks than pixels", () => {
    expect(ranksPerRow(8, 480)).toBe(1);
    expect(ranksPerRow(480, 480)).toBe(1);
    expect(ranksPerRow(1000, 480)).toBe(3);
  });
});
