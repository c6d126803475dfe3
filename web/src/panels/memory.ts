// Memory over time by category, and memory in use at the peak.
import { element } from "../dom";
import type { MemoryDevice } from "../contract";
import { formatBytes } from "../format";
import type { State } from "../state";
import { segments, type Choice } from "../view/segments";
import { MemoryChart } from "../view/memory_chart";
import { explainPeak, peakMoment } from "./memory_facts";
import { peakTables } from "./memory_peak";
import { absent } from "./tables";

export function memoryPanel(state: State): HTMLElement {
  const { memory } = state.report;
  if (!memory.length)
    return absent("No allocations were recorded.", "Record with profile_memory=True (opscope run --memory).");
  const host = element("div", { class: "panel-fill" });
  const show = (device: MemoryDevice) => host.replaceChildren(devicePanel(state, device, memory, show));
  show(memory.reduce((a, b) => (b.device !== "CPU" && a.device === "CPU" ? b : a)));
  return host;
}

function devicePanel(
  state: State,
  device: MemoryDevice,
  all: MemoryDevice[],
  show: (device: MemoryDevice) => void,
): HTMLElement {
  const picker = all.length > 1 ? devicePicker(device, all, show) : null;
  const chart = new MemoryChart(state, device);
  const { byCategory, byPhase, uncategorised } = device;
  const choices: Choice[] = [
    ...(byCategory ? [{ text: "by category", choose: () => chart.show(byCategory) }] : []),
    { text: byPhase.names.length > 1 ? "by phase" : byPhase.names[0], choose: () => chart.show(byPhase) },
  ];
  const why = uncategorised
    ? element("p", { class: "sentence dim" }, `Memory categories are unknown: ${uncategorised}`)
    : null;
  const peak = element(
    "p",
    { class: "sentence" },
    element("b", {}, `Peak: ${formatBytes(device.peakBytes)}`),
    ` ${peakMoment(state, device)}. ${explainPeak(device)} `,
    element(
      "button",
      { class: "link", on: { click: () => showPeak(state, device) } },
      "show in the timeline",
    ),
  );
  return element(
    "div",
    { class: "memory" },
    element(
      "div",
      { class: "memory-chart" },
      element("div", { class: "memory-head" }, picker, segments("Memory over time", choices)),
      chart.legend,
      chart.root,
    ),
    element("div", { class: "memory-peak" }, peak, why, peakTables(state, device)),
  );
}

function devicePicker(
  device: MemoryDevice,
  all: MemoryDevice[],
  show: (device: MemoryDevice) => void,
): HTMLElement {
  const options = all.map((d, i) =>
    element("option", { value: String(i), selected: d === device }, d.device),
  );
  const select = element("select", { aria: { label: "Device" } }, ...options);
  select.addEventListener("change", () => show(all[Number(select.value)]));
  return select;
}

function showPeak(state: State, device: MemoryDevice): void {
  const margin = Math.max((state.duration * 5) / 1000, 1000);
  state.setView(device.peakTime - margin, device.peakTime + margin);
}
