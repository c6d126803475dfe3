// Tables of memory in use at a device's peak.
import { partColor } from "../colors";
import type { MemoryDevice, MemoryGroup, MemoryGrouping } from "../contract";
import { formatBytes, formatCount, formatShare, formatTime } from "../format";
import { element } from "../dom";
import type { State } from "../state";
import { segments, type Choice } from "../view/segments";
import { Table, type Column } from "../view/table";
import { stackFlame } from "./memory_flame";

const TITLES: [MemoryGrouping, string][] = [
  ["category", "Category"],
  ["module", "Module"],
  ["operator", "Outermost operator"],
  ["function", "Function"],
  ["phase", "Phase of the step"],
  ["line", "Line of the program"],
  ["end", "Line of the program, at the end"],
];

export function peakTables(state: State, device: MemoryDevice): HTMLElement {
  const host = element("div", { class: "panel-fill" });
  const groupings: Choice[] = TITLES.filter(([by]) => device.groups[by].length > 0).map(([by, title]) => ({
    text: by === "end" ? "line, at the end" : by,
    choose: () => host.replaceChildren(groupTable(state, device, by, title)),
  }));
  const stacks: Choice[] = device.stacks.length
    ? [{ text: "stack", choose: () => host.replaceChildren(stackFlame(state, device)) }]
    : [];
  const blocks: Choice[] = device.blocks.length
    ? [{ text: "blocks", choose: () => host.replaceChildren(blockTable(state, device)) }]
    : [];
  return element(
    "div",
    { class: "panel-fill column" },
    segments("At the peak", [...groupings, ...stacks, ...blocks]),
    host,
  );
}

function groupTable(state: State, device: MemoryDevice, by: MemoryGrouping, title: string): HTMLElement {
  const groups = device.groups[by];
  const searchable = by === "operator" || by === "module" || by === "function";
  const isPart = by === "category" || by === "phase";
  return new Table({
    rows: groups.length,
    sortBy: "bytes",
    placeholder: "Filter",
    ...(searchable && { onPick: (row: number) => search(state, groups[row].name) }),
    columns: [
      {
        key: "name",
        title,
        width: "minmax(130px, 3fr)",
        numeric: false,
        value: (row) => groups[row].name,
        color: (row) => (isPart ? partColor(groups[row].name) : state.colorOf(groups[row].name)),
      },
      bytes((row) => groups[row].bytes, device),
      {
        key: "share",
        title: "Share",
        width: "70px",
        numeric: true,
        value: (row) => groups[row].bytes,
        text: (row) => formatShare(groups[row].bytes / device.peakBytes),
      },
      {
        key: "blocks",
        title: "Blocks",
        width: "70px",
        numeric: true,
        value: (row) => groups[row].blocks,
        text: (row) => formatCount(groups[row].blocks),
      },
      ...before(groups),
    ],
  }).root;
}

function bytes(value: (row: number) => number, device: MemoryDevice): Column {
  return {
    key: "bytes",
    title: "Bytes",
    width: "92px",
    numeric: true,
    value,
    text: (row) => formatBytes(value(row)),
    bar: (row) => value(row) / device.peakBytes,
  };
}

function before(groups: MemoryGroup[]): Column[] {
  if (!groups.some((group) => group.before > 0)) return [];
  return [
    {
      key: "before",
      title: "Allocated before",
      hint: "Allocated before the recording",
      width: "98px",
      numeric: true,
      value: (row) => groups[row].before,
      text: (row) => (groups[row].before ? formatBytes(groups[row].before) : ""),
    },
  ];
}

// A module's path ends with the name that its spans have.
function search(state: State, name: string): void {
  const candidates = [name, `nn.Module: ${name.split(".").at(-1)}`];
  state.setSearch(candidates.find((text) => state.labelOf(text) !== undefined) ?? name, true);
}

function blockTable(state: State, device: MemoryDevice): HTMLElement {
  const { blocks } = device;
  return new Table({
    rows: blocks.length,
    sortBy: "bytes",
    placeholder: "Filter",
    onPick: (row) => blocks[row].span >= 0 && state.goTo(blocks[row].span, true),
    columns: [
      {
        key: "name",
        title: "Allocated by",
        width: "minmax(130px, 3fr)",
        numeric: false,
        value: (row) => blocks[row].name,
        color: (row) => state.colorOf(blocks[row].name),
      },
      bytes((row) => blocks[row].bytes, device),
      {
        key: "category",
        title: "Category",
        width: "110px",
        numeric: false,
        value: (row) => blocks[row].category,
        color: (row) => partColor(blocks[row].category),
      },
      {
        key: "time",
        title: "At",
        width: "80px",
        numeric: true,
        value: (row) => blocks[row].time,
        text: (row) => (blocks[row].time < 0 ? "before" : formatTime(blocks[row].time)),
      },
      {
        key: "until",
        title: "Freed at",
        width: "80px",
        numeric: true,
        value: (row) => (blocks[row].until < 0 ? Infinity : blocks[row].until),
        text: (row) => (blocks[row].until < 0 ? "never" : formatTime(blocks[row].until)),
      },
    ],
  }).root;
}
