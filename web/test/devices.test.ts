import { expect, test } from "vitest";
import type { DeviceSection, DeviceUse } from "../src/contract";
import { devicesPanel } from "../src/panels/devices";
import type { State } from "../src/state";

const DEVICE: DeviceUse = {
  name: "CUDA 0",
  work: 1204,
  busy: 250,
  parts: [{ name: "computing", time: 200, detail: "" }],
  idle: [
    { name: "launch-bound", time: 600, detail: "Fewer and larger operators help." },
    { name: "unknown", time: 150, detail: "The launch was not recorded." },
  ],
  gaps: 3,
  longestGap: 400,
  sentences: ["CUDA 0 is idle 60% of the time, launch-bound."],
  streams: { heading: ["Stream", "Work"], rows: [["7", "1,204"]] },
};

function panel(section: Partial<DeviceSection>): HTMLElement {
  const state = { theme: { dark: false } } as unknown as State;
  return devicesPanel(state, { wall: 1000, devices: [DEVICE], modules: null, notes: [], ...section });
}

test("a device says how busy it was, why it rested, and of its streams", () => {
  const root = panel({ notes: ["occupancy is not known"] });
  for (const text of [
    "busy 25.0% of 1.00 µs, 1,204 activities",
    "Idle 75.0%, 750 ns: 3 times, longest 400 ns",
    "launch-bound",
    "CUDA 0 is idle 60%",
    "occupancy is not known",
  ])
    expect(root.textContent).toContain(text);
  const widths = [...root.querySelectorAll<HTMLElement>(".bar-fill")].map((fill) => fill.style.width);
  expect(widths).toEqual(["25%", "20%", "60%", "15%"]);
  expect([...root.querySelectorAll("td")].map((cell) => cell.textContent)).toEqual(["7", "1,204"]);
});

test("a device that never rested says so", () => {
  const root = panel({ devices: [{ ...DEVICE, busy: 1000, idle: [], gaps: 0, longestGap: 0 }] });
  expect(root.textContent).toContain("Never idle");
});

test("without a device there is only why", () => {
  const root = panel({ devices: [], notes: ["Choose a process."] });
  expect(root.textContent).toBe("Choose a process.");
});
