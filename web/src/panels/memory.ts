// Memory over time by what allocated it, and what was alive when most was in use.
import uPlot from "uplot";
import { phaseColor } from "../colors";
import type { MemoryDevice, MemoryGroup } from "../contract";
import { element, replace } from "../dom";
import { formatBytes, formatCount, formatMoment, formatShare, formatTime } from "../format";
import type { State } from "../state";
import { Table } from "../view/table";
import { peakMoment } from "./memory_facts";
import { colorOf } from "./overview";
import { absent } from "./tables";

const BINARY_STEPS = Array.from({ length: 50 }, (_, i) => 2 ** i);
const FONT = "11px system-ui, sans-serif";

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
  const chart = element("div", { class: "chart" });
  const legend = element("div", { class: "legend" });
  drawChart(state, device, chart, legend);
  const peak = element(
    "p",
    { class: "sentence" },
    element("b", {}, `Peak: ${formatBytes(device.peakBytes)}`),
    ` ${peakMoment(state, device)}. ${explain(device)} `,
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
      element("div", { class: "memory-head" }, picker, legend),
      chart,
    ),
    element("div", { class: "memory-peak" }, peak, peakTables(state, device)),
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

const PURPOSE = "What for";

function explain(device: MemoryDevice): string {
  const top = device.groups.operator[0];
  if (!top) return "What held it was allocated before the recording began.";
  const share = formatShare(top.bytes / device.peakBytes);
  const before = device.peakBytes - device.knownAtPeak;
  const rest =
    before > 0.01 * device.peakBytes
      ? ` ${formatBytes(before)} had been allocated before the recording.`
      : "";
  const blocks = top.blocks === 1 ? "one block" : `${formatCount(top.blocks)} blocks`;
  return `${blocks[0].toUpperCase()}${blocks.slice(1)} from ${top.name || "outside operators"} held most, ${formatBytes(top.bytes)} (${share}).${purpose(device)}${rest}`;
}

function purpose({ groups, peakBytes }: MemoryDevice): string {
  const top = groups.category.find((group) => group.name && group.name !== "unknown");
  return top ? ` ${formatShare(top.bytes / peakBytes)} of the peak is for: ${top.name}.` : "";
}

function showPeak(state: State, device: MemoryDevice): void {
  const margin = Math.max((state.duration * 5) / 1000, 1000);
  state.setView(device.peakTime - margin, device.peakTime + margin);
}

// Categories stacked: each series is the sum of those up to it, drawn from the largest sum down.
function drawChart(state: State, device: MemoryDevice, host: HTMLElement, legend: HTMLElement): void {
  const sums: number[][] = [];
  device.categoryBytes.forEach((bytes, i) => {
    sums.push(bytes.map((value, j) => Math.max(0, value) + (i ? sums[i - 1][j] : 0)));
  });
  const { text, line, dim, accent } = { ...state.theme };
  const order = device.categories.map((_, i) => i).reverse();
  const stepped = uPlot.paths.stepped!({ align: 1 });
  const options = (width: number, height: number): uPlot.Options => ({
    width,
    height,
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, Math.max(max * 1.08, 1)] } },
    axes: [
      {
        stroke: dim,
        grid: { stroke: line, width: 1 },
        ticks: { stroke: line },
        values: (_u, ticks) => ticks.map((t) => formatTick(t, ticks)),
        size: 28,
        font: FONT,
      },
      {
        stroke: dim,
        grid: { stroke: line, width: 1 },
        ticks: { stroke: line },
        values: (_u, ticks) => ticks.map((t) => formatBytes(t)),
        size: 70,
        incrs: BINARY_STEPS,
        font: FONT,
      },
    ],
    series: [
      {},
      ...order.map((i) => ({
        label: device.categories[i],
        fill: `${color(device.categories[i])}b0`,
        stroke: color(device.categories[i]),
        width: 0,
        paths: stepped,
        points: { show: false },
      })),
    ],
    hooks: {
      setCursor: [(u) => showLegend(u.cursor.idx ?? null)],
      draw: [(u) => markPeak(u, device, accent, text)],
    },
  });
  const data = [device.time, ...order.map((i) => sums[i])] as uPlot.AlignedData;
  let plot: uPlot | null = null;
  new ResizeObserver(() => {
    const [width, height] = [host.clientWidth, host.clientHeight];
    if (width < 50 || height < 50) return;
    if (plot) plot.setSize({ width, height });
    else plot = new uPlot(options(width, height), data, host);
  }).observe(host);
  showLegend(null);

  function showLegend(index: number | null): void {
    const at = index ?? device.total.indexOf(Math.max(...device.total));
    const when = index === null ? "at the peak" : `at ${formatTime(device.time[at])}`;
    replace(
      legend,
      element("span", { class: "dim" }, `${formatBytes(device.total[at])} ${when}:`),
      ...device.categories.map((name, i) => {
        if (device.categoryBytes[i][at] <= 0) return null;
        const square = element("span", { class: "swatch" });
        square.style.background = color(name);
        return element(
          "span",
          { class: "legend-item" },
          square,
          `${name} ${formatBytes(Math.max(0, device.categoryBytes[i][at]))}`,
        );
      }),
    );
  }
}

function formatTick(tick: number, ticks: number[]): string {
  return tick === 0 ? "0" : formatMoment(tick, ticks.length > 1 ? ticks[1] - ticks[0] : tick);
}

function color(category: string): string {
  return phaseColor(category);
}

function markPeak(u: uPlot, device: MemoryDevice, accent: string, text: string): void {
  const x = u.valToPos(device.peakTime, "x", true);
  const { top, height, left, width } = u.bbox;
  if (x < left || x > left + width) return;
  u.ctx.save();
  u.ctx.strokeStyle = accent;
  u.ctx.setLineDash([4, 4]);
  u.ctx.beginPath();
  u.ctx.moveTo(x, top);
  u.ctx.lineTo(x, top + height);
  u.ctx.stroke();
  u.ctx.fillStyle = text;
  u.ctx.textAlign = x > left + width - 60 ? "right" : "left";
  u.ctx.fillText(" peak ", x, top + 10 * devicePixelRatio);
  u.ctx.restore();
}

function peakTables(state: State, device: MemoryDevice): HTMLElement {
  const host = element("div", { class: "panel-fill" });
  const choices: [string, () => HTMLElement][] = [
    ["category", () => groupTable(state, device, device.groups.category, PURPOSE)],
    ["operator", () => groupTable(state, device, device.groups.operator, "Operator")],
    ["phase", () => groupTable(state, device, device.groups.phase, "Part of the step")],
    ["module", () => groupTable(state, device, device.groups.module, "Module")],
    ["block", () => blockTable(state, device)],
  ];
  const usable = choices.filter(([key]) => key === "block" || device.groups[key as "operator"].length > 0);
  const buttons = usable.map(([key, make]) => {
    const button = element(
      "button",
      { class: "segment", on: { click: () => choose(button, make) } },
      `by ${key}`,
    );
    return button;
  });
  const choose = (button: HTMLElement, make: () => HTMLElement) => {
    for (const other of buttons) other.classList.toggle("on", other === button);
    host.replaceChildren(make());
  };
  if (buttons.length) choose(buttons[0], usable[0][1]);
  return element(
    "div",
    { class: "panel-fill column" },
    element("div", { class: "segments" }, ...buttons),
    host,
  );
}

function groupTable(state: State, device: MemoryDevice, groups: MemoryGroup[], title: string): HTMLElement {
  return new Table({
    rows: groups.length,
    sortBy: "bytes",
    placeholder: `Filter`,
    onPick: (row) => title !== PURPOSE && state.setSearch(groups[row].name, true),
    columns: [
      {
        key: "name",
        title,
        width: "minmax(140px, 3fr)",
        numeric: false,
        value: (row) => groups[row].name || "(outside)",
        color: (row) =>
          title === "Part of the step" ? phaseColor(groups[row].name) : colorOf(state, groups[row].name),
      },
      {
        key: "bytes",
        title: "Bytes",
        width: "96px",
        numeric: true,
        value: (row) => groups[row].bytes,
        text: (row) => formatBytes(groups[row].bytes),
        bar: (row) => groups[row].bytes / device.peakBytes,
      },
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
    ],
  }).root;
}

function blockTable(state: State, device: MemoryDevice): HTMLElement {
  const { blocks } = device;
  return new Table({
    rows: blocks.length,
    sortBy: "bytes",
    placeholder: "Filter",
    onPick: (row) => blocks[row].span >= 0 && state.goTo(blocks[row].span),
    columns: [
      {
        key: "name",
        title: "Allocated by",
        width: "minmax(140px, 3fr)",
        numeric: false,
        value: (row) => blocks[row].name || "(outside)",
        color: (row) => colorOf(state, blocks[row].name),
      },
      {
        key: "bytes",
        title: "Bytes",
        width: "96px",
        numeric: true,
        value: (row) => blocks[row].bytes,
        text: (row) => formatBytes(blocks[row].bytes),
      },
      {
        key: "time",
        title: "At",
        width: "84px",
        numeric: true,
        value: (row) => blocks[row].time,
        text: (row) => formatTime(blocks[row].time),
      },
      {
        key: "age",
        title: "Freed at",
        width: "84px",
        numeric: true,
        value: (row) => (blocks[row].until < 0 ? Infinity : blocks[row].until),
        text: (row) => (blocks[row].until < 0 ? "never" : formatTime(blocks[row].until)),
      },
    ],
  }).root;
}
