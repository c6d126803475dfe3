import { beforeEach, describe, expect, it } from "vitest";
import type { Report } from "../src/contract";
import { addressOf, goToAddress } from "../src/address";
import { State } from "../src/state";
import { makeSpans } from "./fixtures";

const PERIOD = { about: "recording", from: 0, to: 1000, leftOut: "" };

function newState(): State {
  const spans = makeSpans([
    ["step", 0, 1000],
    ["aten::mm", 100, 200],
    ["aten::mm", 300, 900],
  ]);
  return new State({ run: { duration: 1000 }, period: PERIOD, steps: null } as unknown as Report, spans);
}

describe("the address", () => {
  let state: State;
  beforeEach(() => (state = newState()));

  it("is empty for what a report begins with", () => {
    expect(addressOf(state)).toBe("");
  });

  it("leads to the same span, tab, search and time", () => {
    state.setSearch("mm");
    state.goTo(2);
    state.setView(50, 400);
    state.setTab("memory");
    const again = newState();
    goToAddress(again, addressOf(state));
    expect([again.selected, again.tab, again.search?.text]).toEqual([2, "memory", "mm"]);
    expect(again.view).toEqual({ from: 50, to: 400 });
    expect(addressOf(again)).toBe(addressOf(state));
  });

  it("leads to a selected stretch of time and to an exact name", () => {
    state.selectRange({ from: 10, to: 20 });
    state.setSearch("aten::mm", true);
    const again = newState();
    goToAddress(again, addressOf(state));
    expect(again.range).toEqual({ from: 10, to: 20 });
    expect(again.search?.exact).toBe(true);
  });

  it("keeps pinned lines and notes", () => {
    state.togglePin("t0 · 100");
    state.setNote(500, "here & <there>", 1);
    state.setNote(501, "second", 0);
    const again = newState();
    goToAddress(again, addressOf(state));
    expect(again.pinned).toEqual(["t0 · 100"]);
    expect(again.notes).toEqual([
      { time: 500, text: "here & <there>" },
      { time: 501, text: "second" },
    ]);
    again.togglePin("t0 · 100");
    again.setNote(500, " ", 2);
    expect(addressOf(again)).toBe("");
  });

  it("of another report, or of nobody, changes nothing it should not", () => {
    goToAddress(state, "note=x&note=-1 a&span=99&view=9-3&range=x&span=-4&tab=");
    expect([state.selected, state.tab, state.range]).toEqual([-1, "overview", null]);
    expect(addressOf(state)).toBe("");
  });
});
