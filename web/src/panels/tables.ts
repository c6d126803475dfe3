// Operators, modules and source lines over the whole recording.
import {
  Kind,
  type ModuleColumns,
  type OperatorColumns,
  type SourceColumns,
  type TableSection,
} from "../contract";
import { element } from "../dom";
import { formatBytes, formatCount, formatLarge, formatShare, formatTime } from "../format";
import type { State } from "../state";
import { Table, type Column } from "../view/table";
import { kindName } from "./selection";

const ANNOTATIONS: number[] = [Kind.annotation, Kind.deviceAnnotation];
const OF_PYTHON: number[] = [
  Kind.pythonCall,
  Kind.cCall,
  Kind.moduleCall,
  Kind.optimizerCall,
  Kind.gcPause,
  Kind.taskRun,
];

// Rows of the table of operators at first.
export function countOperators({ kind }: OperatorColumns): number {
  return kind.filter((one) => !ANNOTATIONS.includes(one) && !OF_PYTHON.includes(one)).length;
}

export function operatorsPanel(state: State): HTMLElement {
  const { operators, operatorsByShape } = state.report;
  const host = element("div", { class: "panel-fill" });
  const show = (byShape: boolean) => {
    const section = byShape && operatorsByShape ? operatorsByShape : operators;
    host.replaceChildren(
      operatorTable(state, section, operatorsByShape ? toggle("by input shape", byShape, show) : null),
    );
  };
  show(false);
  return host;
}

function operatorTable(
  state: State,
  section: TableSection<OperatorColumns>,
  shapeSwitch: HTMLElement | null,
): HTMLElement {
  const { columns, rows } = section;
  let table: Table | null = null;
  const others = [
    { text: "with annotations", kinds: ANNOTATIONS, on: false },
    { text: "with Python calls", kinds: OF_PYTHON, on: false },
  ];
  const switches = others
    .filter(({ kinds }) => columns.kind.some((kind) => kinds.includes(kind)))
    .map((other) =>
      toggle(other.text, false, (on) => {
        other.on = on;
        table?.refresh();
      }),
    );
  const isLeftOut = (row: number) => others.some(({ kinds, on }) => !on && kinds.includes(columns.kind[row]));
  const all: Column[] = [
    {
      key: "name",
      title: "Operator",
      width: "minmax(240px, 3fr)",
      numeric: false,
      value: (row) => columns.name[row],
      color: (row) => state.colorOf(columns.name[row]),
      detail: (row) =>
        columns.waits[row]
          ? "waiting"
          : columns.shapes?.[row] || (columns.kind[row] === Kind.operator ? "" : kindName(columns.kind[row])),
    },
    ...times("self", "Self CPU", "CPU time without inner operators", columns.self, true),
    ...share(state, columns),
    ...times("total", "Total CPU", "CPU time including inner operators", columns.total),
    ...times("deviceSelf", "Self device", "Time of device work launched directly", columns.deviceSelf, true),
    ...times(
      "deviceTotal",
      "Total device",
      "Time of device work launched, including inner operators",
      columns.deviceTotal,
    ),
    count("calls", "Calls", columns.calls),
    ...average(columns),
    ...sizes(
      "memorySelf",
      "Memory",
      "Bytes allocated minus bytes freed, without inner operators",
      columns.memorySelf,
    ),
    ...sizes("deviceMemorySelf", "Device memory", "The same on the device", columns.deviceMemorySelf),
    ...flops(columns),
  ];
  table = new Table({
    rows,
    columns: all,
    sortBy: columns.deviceSelf ? "deviceSelf" : columns.self ? "self" : "calls",
    filterText: (row) => `${columns.name[row]} ${columns.shapes?.[row] ?? ""}`,
    placeholder: "Filter operators",
    extras: [shapeSwitch, ...switches].filter((part) => part !== null),
    hidden: isLeftOut,
    last: (row) => columns.waits[row],
    note: `${leftOut(section)}${coverage(section)}${about(state)}`,
    onPick: (row) => state.showAllOf(columns.name[row], true),
  });
  return table.root;
}

export function modulesPanel(state: State): HTMLElement {
  const section = state.report.modules;
  if (!section)
    return absent("No module calls were recorded.", "Record with with_modules=True (opscope run --modules).");
  const columns: ModuleColumns = section.columns;
  const all: Column[] = [
    {
      key: "name",
      title: "Module",
      width: "minmax(240px, 3fr)",
      numeric: false,
      value: (row) => columns.name[row],
      color: (row) => state.colorOf(columns.label[row]),
      detail: (row) => columns.class[row],
    },
    ...times("total", "Forward", "Forward calls, including submodules", columns.total, true),
    ...times("self", "Forward self", "Forward calls, without submodules", columns.self),
    ...times("backward", "Backward self", "Backward operators, without submodules", columns.backward, true),
    ...times("deviceTotal", "Device", "Time of device work launched in forward", columns.deviceTotal),
    count("calls", "Calls", columns.calls),
  ];
  return new Table({
    rows: section.rows,
    columns: all,
    sortBy: "total",
    filterText: (row) => `${columns.name[row]} ${columns.class[row]}`,
    placeholder: "Filter modules",
    note: leftOut(section) + about(state),
    onPick: (row) => state.showAllOf(columns.label[row], true),
  }).root;
}

export function sourcesPanel(state: State): HTMLElement {
  const section = state.report.sources;
  if (!section)
    return absent("No Python calls were recorded.", "Record with with_stack=True (opscope run --stack).");
  const columns: SourceColumns = section.columns;
  let library = !columns.library.includes(false);
  let table: Table | null = null;
  const librarySwitch = toggle("with library code", library, (on) => {
    library = on;
    table?.refresh();
  });
  table = new Table({
    rows: section.rows,
    columns: [
      {
        key: "place",
        title: "Line",
        width: "minmax(240px, 3fr)",
        numeric: false,
        value: (row) => place(columns.file[row], columns.line[row]),
        text: (row) => place(shortPath(columns.file[row]), columns.line[row]),
        detail: (row) => columns.function[row],
      },
      {
        key: "text",
        title: "Source",
        width: "minmax(160px, 3fr)",
        numeric: false,
        value: (row) => columns.text[row],
      },
      ...times("total", "Total", "Time of calls from this line", columns.total, true),
      ...times("self", "Self", "Time of these calls without inner calls", columns.self, true),
      ...times("deviceTotal", "Device", "Time of device work launched in these calls", columns.deviceTotal),
      count("calls", "Calls", columns.calls),
    ],
    sortBy: "total",
    filterText: (row) =>
      `${columns.file[row]}:${columns.line[row]} ${columns.function[row]} ${columns.text[row]}`,
    placeholder: "Filter lines",
    extras: [librarySwitch],
    hidden: (row) => !library && columns.library[row],
    note: leftOut(section) + about(state),
    onPick: (row) => state.goToCall(columns.starts[row]),
  });
  return table.root;
}

export function absent(what: string, remedy: string): HTMLElement {
  return element("div", { class: "absent" }, element("p", {}, what), element("p", { class: "dim" }, remedy));
}

export function toggle(text: string, on: boolean, change: (on: boolean) => void): HTMLElement {
  const box = element("input", { type: "checkbox", checked: on, on: { change: () => change(box.checked) } });
  return element("label", { class: "toggle" }, box, text);
}

export function times(
  key: string,
  title: string,
  hint: string,
  values: number[] | undefined,
  bar = false,
): Column[] {
  if (!values) return [];
  const most = Math.max(1, ...values);
  return [
    {
      key,
      title,
      hint,
      width: "112px",
      numeric: true,
      value: (row) => values[row],
      text: (row) => formatTime(values[row]),
      ...(bar ? { bar: (row: number) => values[row] / most } : {}),
    },
  ];
}

export function sizes(key: string, title: string, hint: string, values: number[] | undefined): Column[] {
  if (!values) return [];
  return [
    {
      key,
      title,
      hint,
      width: "112px",
      numeric: true,
      value: (row) => values[row],
      text: (row) => formatBytes(values[row]),
    },
  ];
}

export function count(key: string, title: string, values: number[]): Column {
  return {
    key,
    title,
    width: "84px",
    numeric: true,
    value: (row) => values[row],
    text: (row) => formatCount(values[row]),
  };
}

// Share of the page's period, as all shares on the page.
function share(state: State, { self }: OperatorColumns): Column[] {
  if (!self) return [];
  return [
    {
      key: "share",
      title: "% of time",
      hint: `Self CPU as a share of ${formatTime(state.wall)}: ${state.report.period.about}`,
      width: "90px",
      numeric: true,
      value: (row) => self[row],
      text: (row) => formatShare(self[row] / state.wall),
    },
  ];
}

function about(state: State): string {
  return state.report.period.leftOut ? `The ${state.report.period.about}.` : "";
}

function average(columns: OperatorColumns): Column[] {
  const total = columns.total;
  return total
    ? times(
        "average",
        "Average",
        "Total CPU time per call",
        total.map((value, row) => value / columns.calls[row]),
      )
    : [];
}

function flops(columns: OperatorColumns): Column[] {
  const values = columns.flops;
  if (!values) return [];
  const hint = "Floating-point operations, where a formula is known";
  return [
    {
      key: "flops",
      title: "FLOPs",
      hint,
      width: "96px",
      numeric: true,
      value: (row) => values[row],
      text: (row) => (values[row] ? formatLarge(values[row]) : ""),
    },
  ];
}

function leftOut(section: TableSection<unknown>): string {
  const missing = section.allRows - section.rows;
  return missing > 0 ? `The ${formatCount(missing)} shortest are not shown. ` : "";
}

function coverage(section: TableSection<unknown>): string {
  const share = section.flopsCoverage;
  return share === undefined ? "" : `FLOP formulas cover ${formatShare(share)} of operator time.`;
}

// Unknown lines are omitted.
export function place(file: string, line: number): string {
  return line > 0 ? `${file}:${line}` : file;
}

function shortPath(path: string): string {
  const parts = path.split("/");
  return parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : path;
}
