import { describe, expect, it } from "vitest";
import { matcher, Search } from "../src/data/search";
import { makeSpans } from "./fixtures";

const spans = makeSpans([
  ["aten::conv2d", 0, 50],
  ["aten::convolution", 5, 45],
  ["aten::relu", 60, 70],
  ["aten::conv2d", 80, 90],
  ["aten::conv2d", 20, 30, 1],
]);

describe("Search", () => {
  it("counts spans, and the time of the outer ones", () => {
    const search = new Search(spans, "conv");
    expect([search.spanCount, search.labelCount, search.totalTime]).toEqual([4, 2, 70]);
    expect(search.has(2)).toBe(false);
  });

  it("can ask for one name alone", () => {
    expect(new Search(spans, "aten::conv2d", true).spanCount).toBe(3);
    expect(new Search(spans, "conv2d", true).spanCount).toBe(0);
  });

  it("goes from match to match in time over all lines, round and round", () => {
    const search = new Search(spans, "conv2d");
    const visited = [];
    for (let i = 0, at = -1; i < 4; i++) visited.push((at = search.next(at, 1)));
    expect(visited).toEqual([0, 4, 3, 0]);
    expect(search.next(4, -1)).toBe(0);
    expect(search.next(0, -1)).toBe(3);
    expect(new Search(spans, "nothing").next(-1, 1)).toBe(-1);
  });
});

describe("matcher", () => {
  it.each([
    ["CONV back", "aten::convolution_backward", true],
    ["conv relu", "aten::convolution", false],
    ["/^aten::re/", "aten::relu", true],
    ["/RELU/i", "aten::relu", true],
    ["/RELU/", "aten::relu", false],
    ["/(/", "aten::(", false],
    ["[x", "a[x]", true],
  ])("%s in %s: %s", (text, name, expected) => {
    expect(matcher(text)(name)).toBe(expected);
  });
});

it("a wrong regular expression says so", () => {
  const spans = makeSpans([["aten::mm", 0, 10]]);
  expect(new Search(spans, "/aten::(mm/").problem).toContain("not a regular expression");
  expect(new Search(spans, "/aten::(mm)/").problem).toBe("");
  expect(new Search(spans, "aten::(mm").problem).toBe("");
});

it("it knows where in the recording matches ran", () => {
  const spans = makeSpans([
    ["a", 0, 10],
    ["b", 10, 11],
    ["a", 90, 100],
  ]);
  const search = new Search(spans, "b", true);
  expect([...search.presence(100, 10)]).toEqual([0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
  expect(search.anyIn(20, 80)).toBe(false);
  expect(search.anyIn(0, 10)).toBe(true);
});
