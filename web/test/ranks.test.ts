import { describe, expect, it } from "vitest";
import { NONE, RankTimes, ranksPerRow } from "../src/panels/rank_facts";

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

describe("ranksPerRow", () => {
  it("is one until there are more ranks than pixels", () => {
    expect(ranksPerRow(8, 480)).toBe(1);
    expect(ranksPerRow(480, 480)).toBe(1);
    expect(ranksPerRow(1000, 480)).toBe(3);
  });
});
