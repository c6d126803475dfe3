// The first panel: where the time went, on one screen.
import { causeColor, partColor } from "../colors";
import { Kind, type Report } from "../contract";
import { element } from "../dom";
import { formatBytes, formatCount, formatShare, formatTime } from "../format";
import type { State } from "../state";
import { busyText, partBars } from "./devices";
import { savedText, severityMark } from "./findings";
import { largestGroups, peakMoment } from "./memory_facts";
import { explainSlowest, otherTime, typicalStep } from "./step_facts";
import { place } from "./tables";

const ROWS = 8;
const LEAST_WAITING = 0.005; // of the time, to be named

interface BarRow {
  name: string;
  value: number;
  text: string;
  color: string;
  onClick: () => void;
  does?: string; // effect of a click, unless it shows the name in the timeline
}

export function overviewPanel(state: State): HTMLElement {
  const { report } = state;
  const cards = [
    periodCard(state),
    findingsCard(state),
    ...timeCards(state),
    ...deviceCards(state),
    stepCard(state),
    moduleCard(state),
    sourceCard(state),
    memoryCard(state),
    recordingCard(report),
  ];
  return element("div", { class: "cards" }, ...cards.filter((card) => card !== null));
}

// The period of the page, unless it is the whole recording.
function periodCard(state: State): HTMLElement | null {
  const { about, leftOut } = state.report.period;
  if (!leftOut) return null;
  return element(
    "div",
    { class: "card period" },
    element(
      "span",
      { class: "sentence" },
      `Tables, findings and shares: ${about}. Not included: ${leftOut}.`,
    ),
    element("button", { class: "button", on: { click: () => state.openStartUp() } }, "Show the start-up"),
  );
}

function findingsCard(state: State): HTMLElement | null {
  const { found } = state.report.findings;
  if (!found.length) return null;
  const lines = found.slice(0, 5).map((finding) =>
    element(
      "button",
      {
        class: "finding-line",
        title: finding.advice,
        on: { click: () => state.setTab("findings") },
      },
      severityMark(finding),
      element("span", { class: "finding-title" }, finding.title),
      element("span", { class: "bar-text" }, savedText(finding).replace(/^saves (about )?/, "")),
    ),
  );
  const subtitle = `estimated savings, of ${formatTime(state.wall)}`;
  return card(state, "What to change", subtitle, "findings", ...lines);
}

// Devices and the CPU work at the same time, so their shares are separate.
function timeCards(state: State): HTMLElement[] {
  const { columns } = state.report.operators;
  const onDevice = columns.kind.some((kind) => kind >= Kind.kernel);
  const cpu = operatorCard(state, onDevice ? "On the CPU" : "Where the time went", ownTimes(columns, false));
  return onDevice ? [operatorCard(state, "On the device", ownTimes(columns, true)), cpu] : [cpu];
}

// Causes of idle time of the first devices; their panel has the rest.
function deviceCards(state: State): HTMLElement[] {
  const { devices } = state.report;
  if (!devices) return [];
  return devices.devices.slice(0, 2).map((device) => {
    const idle = partBars(devices, device.idle.slice(0, ROWS), ({ name }) =>
      causeColor(name, state.theme.dark),
    );
    const busy = partBars(devices, [{ name: "busy", time: device.busy, detail: "" }], () => "");
    return card(
      state,
      `${device.name}: busy time, and idle time by cause`,
      busyText(devices, device),
      "devices",
      busy,
      idle,
    );
  });
}

function operatorCard(state: State, title: string, own: number[]): HTMLElement {
  const { columns } = state.report.operators;
  const rows = largest(own, ROWS).map((row) => ({
    name: columns.name[row],
    value: own[row],
    text: `${formatTime(own[row])}  ${formatShare(own[row] / state.wall)}`,
    color: state.colorOf(columns.name[row]),
    onClick: () => state.showAllOf(columns.name[row], true),
  }));
  const subtitle = `self time, of ${formatTime(state.wall)}`;
  return card(
    state,
    title,
    subtitle,
    "operators",
    bars(rows, "No operators were recorded."),
    ...waited(state),
  );
}

// Names of any kind, ranked as on the command line, without waits and without annotations on a
// device, which contain other activities.
function ownTimes(columns: Report["operators"]["columns"], device: boolean): number[] {
  return columns.name.map((_, row) => {
    const kind = columns.kind[row];
    if (columns.waits[row] || kind === Kind.deviceAnnotation || kind >= Kind.kernel !== device) return 0;
    return (device ? columns.deviceSelf : columns.self)?.[row] ?? 0;
  });
}

// The longest wait, if it is long.
function waited(state: State): HTMLElement[] {
  const { columns } = state.report.operators;
  const own = columns.name.map((_, row) => (columns.waits[row] ? (columns.self?.[row] ?? 0) : 0));
  const longest = largest(own, 2).filter((row) => own[row] >= LEAST_WAITING * state.wall);
  if (!longest.length) return [];
  const names = longest.map((row) => `${columns.name[row]} ${formatTime(own[row])}`);
  return [element("p", { class: "sentence dim" }, `Waiting time, not included above: ${names.join("; ")}.`)];
}

function stepCard(state: State): HTMLElement | null {
  const { steps } = state.report;
  if (!steps) return null;
  const typical = typicalStep(steps);
  const duration = steps.duration[typical];
  const parts = [
    ...steps.phases.map((name, i) => ({ name, value: steps.phaseTimes[typical][i] })),
    { name: "other (Python, waiting)", value: otherTime(steps, typical) },
  ];
  const rows = parts
    .filter((part) => part.value > 0)
    .map(({ name, value }) => ({
      name,
      value,
      text: `${formatTime(value)}  ${formatShare(value / duration)}`,
      color: partColor(name),
      onClick: () => state.setTab("steps"),
      does: "Compare the steps",
    }));
  const subtitle = `step ${steps.number[typical]}: ${formatTime(duration)}, of ${steps.allSteps} steps`;
  const busy = steps.deviceBusy[typical];
  const device = busy
    ? ` The device was busy for ${formatTime(busy)} of it (${formatShare(busy / duration)}).`
    : "";
  const sentence = element("p", { class: "sentence" }, explainSlowest(steps), device);
  return card(state, "A typical step", subtitle, "steps", bars(rows, ""), sentence);
}

function moduleCard(state: State): HTMLElement | null {
  const { modules } = state.report;
  if (!modules) return null;
  const { columns } = modules;
  const own = columns.self.map((value, row) => value + columns.backward[row]);
  const rows = largest(own, ROWS).map((row) => ({
    name: columns.name[row],
    value: own[row],
    text: `${formatTime(columns.self[row])} + ${formatTime(columns.backward[row])}`,
    color: state.colorOf(columns.label[row]),
    onClick: () => state.showAllOf(columns.label[row], true),
  }));
  return card(state, "Modules", "forward + backward, without submodules", "modules", bars(rows, ""));
}

function sourceCard(state: State): HTMLElement | null {
  const { sources } = state.report;
  if (!sources) return null;
  const { columns } = sources;
  const weight = columns.total.map((value, row) => (columns.library[row] ? 0 : value));
  const rows = largest(weight, ROWS).map((row) => ({
    name: `${place(columns.file[row].split("/").pop()!, columns.line[row])}  ${columns.function[row]}`,
    value: weight[row],
    text: formatTime(weight[row]),
    color: "",
    onClick: () => state.showAllOf(columns.function[row]),
  }));
  return card(
    state,
    "Lines of your program",
    "including everything they call",
    "sources",
    bars(rows, "Only library code was recorded."),
  );
}

function memoryCard(state: State): HTMLElement | null {
  const { memory } = state.report;
  if (!memory.length) return null;
  const parts = memory.slice(0, 2).map((device) => {
    const rows = largestGroups(device, 4).map(({ name, bytes }) => ({
      name,
      value: bytes,
      text: `${formatBytes(bytes)}  ${formatShare(bytes / device.peakBytes)}`,
      color: state.labelOf(name) === undefined ? partColor(name) : state.colorOf(name),
      onClick: () => state.setTab("memory"),
      does: "Open the memory panel",
    }));
    const of = state.report.period.leftOut ? " over the whole recording" : "";
    const sentence = `${device.device}: ${formatBytes(device.peakBytes)}${of}, ${peakMoment(state, device)}. In use then:`;
    return element("div", {}, element("p", { class: "sentence" }, sentence), bars(rows, ""));
  });
  return card(state, "Memory at its peak", "", "memory", ...parts);
}

function recordingCard(report: Report): HTMLElement {
  const { run } = report;
  const dropped =
    run.dropped > 0
      ? `${formatCount(run.dropped)} dropped`
      : run.ledger.length
        ? "nothing dropped"
        : "unknown how many were dropped";
  const lines = [
    `${counted(report)}; ${dropped}.`,
    run.costNs !== null && run.duration > 0
      ? `The overhead of recording is about ${formatTime(run.costNs)}, ${formatShare(run.costNs / run.duration)} of the time recorded.`
      : "",
    run.unfinished
      ? `${run.unfinished === 1 ? "One span" : `${formatCount(run.unfinished)} spans`} had not ended at the end of the recording.`
      : "",
    missing(report),
  ];
  return element(
    "div",
    { class: `card${run.dropped > 0 ? " warning" : ""}` },
    element("h3", {}, "This recording"),
    ...lines.filter(Boolean).map((line) => element("p", { class: "sentence" }, line)),
  );
}

function counted(report: Report): string {
  const { events, threads, gpu } = report.run.counts;
  if (!events && !gpu) return "No events were recorded";
  const onThreads = threads === 1 ? "one thread" : `${formatCount(threads)} threads`;
  const device = gpu ? ` and ${formatCount(gpu)} on devices` : "";
  return `${formatCount(events)} spans on ${onThreads}${device}`;
}

// Data that was not recorded, and the options that record it.
function missing(report: Report): string {
  const hints = [
    !report.modules && "modules (with_modules=True)",
    !report.sources && "source lines (with_stack=True)",
    !report.memory.length && "memory (profile_memory=True)",
    !report.operatorsByShape && "shapes (record_shapes=True)",
    !report.steps && "steps (a schedule)",
  ].filter((hint) => hint);
  return hints.length ? `Not recorded: ${hints.join(", ")}.` : "";
}

function card(
  state: State,
  title: string,
  subtitle: string,
  tab: string,
  ...content: HTMLElement[]
): HTMLElement {
  return element(
    "div",
    { class: "card" },
    element(
      "div",
      { class: "card-head" },
      element("h3", {}, title),
      element("span", { class: "card-subtitle" }, subtitle),
      element("button", { class: "link", on: { click: () => state.setTab(tab) } }, "all →"),
    ),
    ...content,
  );
}

export function bars(rows: BarRow[], empty: string): HTMLElement {
  if (!rows.length) return element("p", { class: "sentence" }, empty);
  const most = Math.max(...rows.map((row) => row.value), 1);
  return element(
    "div",
    { class: "bars" },
    ...rows.map(({ name, value, text, color, onClick, does }) => {
      const fill = element("span", { class: "bar-fill" });
      fill.style.width = `${(value / most) * 100}%`;
      if (color) fill.style.background = color;
      const content = [
        element("span", { class: "bar-name", title: name }, name || "(no name)"),
        element("span", { class: "bar-track" }, fill),
        element("span", { class: "bar-text" }, text),
      ];
      const title = does ?? `Show ${name} in the timeline`;
      return element("button", { class: "bar-row", title, on: { click: onClick } }, ...content);
    }),
  );
}

export function largest(values: number[], count: number): number[] {
  return values
    .map((_, row) => row)
    .filter((row) => values[row] > 0)
    .sort((a, b) => values[b] - values[a])
    .slice(0, count);
}
