// How busy devices were, why they were idle, and launch delays.
import { causeColor } from "../colors";
import type { DevicePart, DeviceSection, DeviceUse } from "../contract";
import { element } from "../dom";
import { formatCount, formatShare, formatTime } from "../format";
import type { State } from "../state";
import { textTable } from "../view/text_table";

export function devicesPanel(state: State, section: DeviceSection): HTMLElement {
  return element(
    "div",
    { class: "devices" },
    ...section.devices.map((device) => deviceCard(state, section, device)),
    section.modules
      ? element(
          "section",
          { class: "card" },
          element("h3", {}, "Device time by module"),
          textTable(section.modules),
        )
      : null,
    ...section.notes.map((note) => element("p", { class: "sentence dim" }, note)),
  );
}

// Summary of a device, in the overview and at the top of its card.
export function busyText({ wall }: DeviceSection, { busy, work }: DeviceUse): string {
  const pieces = work === 1 ? "one activity" : `${formatCount(work)} activities`;
  return `busy ${formatShare(busy / wall)} of ${formatTime(wall)}, ${pieces}`;
}

function deviceCard(state: State, section: DeviceSection, device: DeviceUse): HTMLElement {
  return element(
    "section",
    { class: "card", aria: { label: device.name } },
    element(
      "div",
      { class: "card-head" },
      element("h3", {}, device.name),
      element("span", { class: "card-subtitle" }, busyText(section, device)),
    ),
    partBars(section, [{ name: "busy", time: device.busy, detail: "" }, ...device.parts], () => ""),
    element("h4", { class: "apart" }, idleText(section, device)),
    partBars(section, device.idle, ({ name }) => causeColor(name, state.theme.dark)),
    ...device.sentences.map((text) => element("p", { class: "sentence" }, text)),
    element("h4", { class: "apart" }, "Streams and launch delays"),
    textTable(device.streams),
  );
}

function idleText({ wall }: DeviceSection, { busy, gaps, longestGap }: DeviceUse): string {
  const idle = Math.max(wall - busy, 0);
  if (!gaps) return "Never idle";
  const times = gaps === 1 ? "once" : `${formatCount(gaps)} times, longest ${formatTime(longestGap)}`;
  return `Idle ${formatShare(idle / wall)}, ${formatTime(idle)}: ${times}`;
}

// The full length of a bar is the whole period.
export function partBars(
  { wall }: DeviceSection,
  parts: DevicePart[],
  color: (part: DevicePart) => string,
): HTMLElement {
  return element(
    "div",
    { class: "bars" },
    ...parts.map((part) => {
      const fill = element("span", { class: "bar-fill" });
      fill.style.width = `${(part.time / wall) * 100}%`;
      fill.style.background = color(part);
      return element(
        "div",
        { class: "bar-row", title: part.detail },
        element("span", { class: "bar-name" }, part.name),
        element("span", { class: "bar-track" }, fill),
        element("span", { class: "bar-text" }, `${formatTime(part.time)}  ${formatShare(part.time / wall)}`),
      );
    }),
  );
}
