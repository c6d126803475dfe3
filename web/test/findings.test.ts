import { expect, test, vi } from "vitest";
import type { Finding, FindingSection } from "../src/contract";
import { findingsPanel, savedText, summary } from "../src/panels/findings";
import type { State } from "../src/state";

const FINDING: Finding = {
  id: "for-loop-indexing",
  title: "Tensors are indexed in Python loops",
  explanation: "Three loops.",
  advice: "Vectorise.",
  severity: "medium",
  time: 3000,
  timeShare: 0.3,
  saved: 2000,
  savedShare: 0.2,
  savedBy: "the fastest round",
  measured: false,
  count: 3,
  spans: [4, 7],
  places: [{ text: "train.py:12", function: "main", module: "Net_0", count: 3, time: 3000 }],
  placeNote: "",
  link: "",
};

function panel(section: FindingSection): { root: HTMLElement; goTo: ReturnType<typeof vi.fn> } {
  const goTo = vi.fn();
  const period = { about: "steady state, 1 s", from: 0, to: 1e9, leftOut: "start-up: 2 s" };
  const state = { report: { findings: section, period }, goTo } as unknown as State;
  return { root: findingsPanel(state), goTo };
}

test("a finding says what, where, what to do and what that saves", () => {
  const { root } = panel({
    found: [FINDING],
    absent: 4,
    unchecked: [],
    notes: [],
    lookedAt: "Shares are of 1 s.",
  });
  const texts = ["1 of 5 checks", "Three loops.", "Vectorise.", "train.py:12 in main", "20.0%"];
  for (const text of [...texts, "Shares are of 1 s."]) expect(root.textContent).toContain(text);
  expect(root.querySelector("a")).toBeNull();
});

test("its button walks through the places and begins again", () => {
  const { root, goTo } = panel({
    found: [FINDING],
    absent: 0,
    unchecked: [],
    notes: [],
    lookedAt: "Shares are of 1 s.",
  });
  const button = root.querySelector("button")!;
  for (let press = 0; press < 3; press++) button.click();
  expect(goTo.mock.calls).toEqual([
    [4, true],
    [7, true],
    [4, true],
  ]);
  expect(button.textContent).toContain("2 of 3");
});

test("without a line it says what to record", () => {
  const finding = { ...FINDING, places: [], placeNote: "Record Python calls.", spans: [] };
  const { root } = panel({
    found: [finding],
    absent: 0,
    unchecked: [],
    notes: [],
    lookedAt: "Shares are of 1 s.",
  });
  expect(root.textContent).toContain("Record Python calls.");
  expect(root.querySelector("button")).toBeNull();
});

test("nothing found is said, with what could not be looked for", () => {
  const unchecked = [{ title: "Odd sizes", needs: "Record shapes." }];
  const { root } = panel({
    found: [],
    absent: 12,
    unchecked,
    notes: ["66% of the time is not explained."],
    lookedAt: "Shares are of the steady state, 1 s. Left out: start-up: 2 s.",
  });
  expect(root.textContent).toContain("No known problem: 12 checks ran");
  expect(root.querySelector("details")!.textContent).toContain("Record shapes.");
  expect(root.textContent).toContain("66% of the time is not explained.");
  expect(root.textContent).toContain("Shares are of the steady state, 1 s. Left out: start-up: 2 s.");
  expect(
    summary({ found: [], absent: 0, unchecked, notes: ["66% of the time is not explained."], lookedAt: "" }),
  ).toContain("No check could run");
});

test("an unknown saving is not a saving of nothing", () => {
  expect(savedText({ ...FINDING, saved: null, savedShare: null })).toBe("saving unknown");
  expect(savedText({ ...FINDING, measured: true })).toMatch(/^saves 2/);
});
