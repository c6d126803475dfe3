// The selection in the timeline: one span, or a period.
import { Kind } from "../contract";
import { statisticsOf, type TimeRange } from "../data/selection";
import { element } from "../dom";
import { formatCount, formatMoment, formatShare, formatTime } from "../format";
import type { State } from "../state";
import { lineName } from "../view/lines";
import { Table } from "../view/table";

const KIND_NAMES: Record<number, string> = {
  [Kind.operator]: "operator",
  [Kind.annotation]: "annotation",
  [Kind.pythonCall]: "Python call",
  [Kind.cCall]: "C function called from Python",
  [Kind.moduleCall]: "module call",
  [Kind.optimizerCall]: "optimizer step",
  [Kind.gcPause]: "garbage collection",
  [Kind.runtimeCall]: "runtime call",
  [Kind.taskRun]: "run of an asyncio task",
  [Kind.kernel]: "kernel",
  [Kind.copy]: "copy",
  [Kind.set]: "memory set",
  [Kind.synchronisation]: "synchronisation",
  [Kind.deviceAnnotation]: "annotation on the device",
};

export function kindName(kind: number): string {
  return KIND_NAMES[kind] ?? "span";
}

export function selectionPanel(state: State): HTMLElement {
  if (state.selected >= 0) return spanPanel(state, state.selected);
  return rangePanel(state, state.scope);
}

function rangePanel(state: State, range: TimeRange): HTMLElement {
  const { spans } = state;
  const statistics = statisticsOf(spans, range);
  const length = range.to - range.from;
  const calls = statistics.reduce((sum, entry) => sum + entry.calls, 0);
  const resolution = Math.max(length / 1000, 1);
  const what = state.range
    ? `${formatTime(length)} selected, from ${formatMoment(range.from, resolution)} to ${formatMoment(range.to, resolution)}`
    : `The ${state.report.period.about}`;
  const waits = (row: number) => spans.waiting[statistics[row].label] === 1;
  const mostSelf = Math.max(1, ...statistics.map((entry, row) => (waits(row) ? 0 : entry.self)));
  const table = new Table({
    rows: statistics.length,
    sortBy: "self",
    placeholder: "Filter names",
    last: waits,
    note: `${what} · ${formatCount(calls)} spans`,
    extras: state.range
      ? [
          button("Zoom to it", () => state.focus(range.from, range.to)),
          button("Clear", () => state.selectRange(null)),
        ]
      : [],
    onPick: (row) => state.setSearch(spans.labels[statistics[row].label], true),
    columns: [
      {
        key: "name",
        title: "Name",
        width: "minmax(220px, 3fr)",
        numeric: false,
        value: (row) => spans.labels[statistics[row].label] || "(no name)",
        color: (row) => state.colors.ofLabel(statistics[row].label),
        detail: (row) => (waits(row) ? "waiting" : ""),
      },
      time(
        "self",
        "Self",
        "Inside the selection, without inner spans",
        (row) => statistics[row].self,
        mostSelf,
      ),
      {
        key: "share",
        title: state.range ? "% of range" : "% of time",
        hint: "Self time as a share of this time; with several threads it can exceed 100%",
        width: "90px",
        numeric: true,
        value: (row) => statistics[row].self / length,
        text: (row) => formatShare(statistics[row].self / length),
      },
      time("total", "Total", "Including inner spans", (row) => statistics[row].total),
      {
        key: "calls",
        title: "Spans",
        width: "80px",
        numeric: true,
        value: (row) => statistics[row].calls,
        text: (row) => formatCount(statistics[row].calls),
      },
      time("average", "Average", "Total per span", (row) => statistics[row].total / statistics[row].calls),
      time("longest", "Longest", "Duration of the longest span", (row) => statistics[row].longest),
    ],
  });
  return table.root;
}

function time(key: string, title: string, hint: string, value: (row: number) => number, most = 0) {
  return {
    key,
    title,
    hint,
    width: "100px",
    numeric: true,
    value,
    text: (row: number) => formatTime(value(row)),
    ...(most ? { bar: (row: number) => value(row) / most } : {}),
  };
}

function spanPanel(state: State, span: number): HTMLElement {
  const { spans } = state;
  const line = spans.lineOf(span);
  const parent = spans.parent[span];
  const duration = spans.duration(span);
  const facts: [string, string][] = [
    [
      "Duration",
      spans.unfinished.has(span)
        ? `${formatTime(duration)} (it did not end during the recording)`
        : formatTime(duration),
    ],
    [
      "Self",
      `${formatTime(spans.selfTime(span))} ${duration ? `(${formatShare(spans.selfTime(span) / duration)})` : ""}`,
    ],
    ["Starts at", formatMoment(spans.start[span], 1000)],
    ["Kind", kindName(spans.kind(span))],
    ["On", lineName(spans.lines[line])],
  ];
  if (parent >= 0)
    facts.push(["Share of parent", formatShare(duration / Math.max(spans.duration(parent), 1))]);
  const caller = callerOf(state, span);
  if (caller) facts.push(["Called in", caller]);
  if (spans.inputsOf(span)) facts.push(["Input shapes", spans.inputsOf(span)]);
  return element(
    "div",
    { class: "details" },
    element(
      "div",
      { class: "details-main" },
      element("h3", {}, swatch(state, span), spans.name(span)),
      element(
        "dl",
        {},
        ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
      ),
      element(
        "div",
        { class: "buttons" },
        button("Zoom to it", () => state.focus(spans.start[span], spans.end[span])),
        button("Find all of this name", () => state.setSearch(spans.name(span), true)),
      ),
    ),
    element("div", { class: "details-side" }, ...around(state, span)),
    element("div", { class: "details-side" }, inside(state, span)),
  );
}

// Innermost function of the program around a span. For backward and device work, the function around
// its forward operator or launch.
function callerOf(state: State, span: number, most = 4): string {
  const { spans } = state;
  for (let above = span; above >= 0; above = spans.parent[above]) {
    if (above !== span && isOfProgram(spans.name(above), spans.kind(above))) return spans.name(above);
    const [cause] = spans.arrowsTo(above);
    const caller = cause !== undefined && most ? callerOf(state, cause, most - 1) : "";
    if (caller) return caller;
  }
  return "";
}

function isOfProgram(name: string, kind: number): boolean {
  return kind === Kind.pythonCall && !/^torch\/|\/torch\/|site-packages|^<|opscope\(/.test(name);
}

function around(state: State, span: number): HTMLElement[] {
  const { spans } = state;
  const parents: number[] = [];
  for (let above = spans.parent[span]; above >= 0 && parents.length < 100; above = spans.parent[above])
    parents.push(above);
  const lists = [
    list(state, "Inside", parents),
    list(state, "Leads to", spans.arrowsFrom(spans.withArrows(span))),
    list(state, "Caused by", spans.arrowsTo(spans.withArrows(span))),
  ];
  return lists.filter((part) => part !== null);
}

function list(state: State, title: string, spans: number[]): HTMLElement | null {
  if (!spans.length) return null;
  return element(
    "div",
    {},
    element("h4", {}, title),
    ...spans.slice(0, 30).map((span) => spanLink(state, span)),
  );
}

function spanLink(state: State, span: number): HTMLElement {
  return element(
    "button",
    { class: "span-link", on: { click: () => state.goTo(span) } },
    swatch(state, span),
    element("span", { class: "span-link-name" }, state.spans.name(span)),
    element("span", { class: "span-link-time" }, formatTime(state.spans.duration(span))),
  );
}

// Contents of the selection, by name.
function inside(state: State, span: number): HTMLElement {
  const { spans } = state;
  const children = spans.children(span);
  const byLabel = new Map<number, { time: number; spans: number[] }>();
  for (const child of children) {
    const entry = byLabel.get(spans.label[child]) ?? { time: 0, spans: [] };
    entry.time += spans.duration(child);
    entry.spans.push(child);
    byLabel.set(spans.label[child], entry);
  }
  const rows = [...byLabel.values()].sort((a, b) => b.time - a.time).slice(0, 30);
  if (!rows.length) return element("div", {}, element("h4", {}, "No inner spans"));
  return element(
    "div",
    {},
    element(
      "h4",
      {},
      children.length === 1 ? "Contains one span" : `Contains ${formatCount(children.length)} spans`,
    ),
    ...rows.map(({ time: total, spans: found }) =>
      element(
        "button",
        { class: "span-link", on: { click: () => state.goTo(longest(state, found)) } },
        swatch(state, found[0]),
        element(
          "span",
          { class: "span-link-name" },
          `${spans.name(found[0])}${found.length > 1 ? ` ×${found.length}` : ""}`,
        ),
        element("span", { class: "span-link-time" }, formatTime(total)),
      ),
    ),
  );
}

function longest(state: State, spans: number[]): number {
  return spans.reduce((a, b) => (state.spans.duration(b) > state.spans.duration(a) ? b : a));
}

function swatch(state: State, span: number): HTMLElement {
  const square = element("span", { class: "swatch" });
  square.style.background = state.colors.ofSpan(span);
  return square;
}

function button(text: string, onClick: () => void): HTMLElement {
  return element("button", { class: "button", on: { click: onClick } }, text);
}
