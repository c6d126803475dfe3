// Memory in use over time as stacked parts, with a mark at the peak and amounts in the legend.
import uPlot from "uplot";
import { partColor } from "../colors";
import type { MemoryDevice, MemoryParts } from "../contract";
import { element, replace } from "../dom";
import { formatBytes, formatMoment, formatTime } from "../format";
import type { State } from "../state";

const BINARY_STEPS = Array.from({ length: 50 }, (_, i) => 2 ** i);
const FONT = "11px system-ui, sans-serif";

export class MemoryChart {
  readonly root = element("div", {
    class: "chart",
    title: "Drag to zoom in, double-click to see everything",
  });
  readonly legend = element("div", { class: "legend" });
  private parts: MemoryParts;
  private plot: uPlot | null = null;
  private readonly peak: number; // its sample

  constructor(
    private readonly state: State,
    private readonly device: MemoryDevice,
  ) {
    this.parts = device.byPhase;
    this.peak = device.total.indexOf(Math.max(...device.total));
    new ResizeObserver(() => this.fit()).observe(this.root);
  }

  show(parts: MemoryParts): void {
    this.parts = parts;
    this.plot?.destroy();
    this.plot = null;
    this.fit();
    this.showLegend(null);
  }

  private fit(): void {
    const [width, height] = [this.root.clientWidth, this.root.clientHeight];
    if (width < 50 || height < 50) return;
    if (this.plot) this.plot.setSize({ width, height });
    else this.plot = new uPlot(this.options(width, height), this.data(), this.root);
  }

  // Each series is the sum of those up to it, drawn from the largest sum down.
  private data(): uPlot.AlignedData {
    const sums: number[][] = [];
    this.parts.bytes.forEach((bytes, i) => {
      sums.push(bytes.map((value, j) => Math.max(0, value) + (i ? sums[i - 1][j] : 0)));
    });
    return [this.device.time, ...sums.reverse()] as uPlot.AlignedData;
  }

  private options(width: number, height: number): uPlot.Options {
    const { line, dim } = this.state.theme;
    const stepped = uPlot.paths.stepped!({ align: 1 });
    const axis = { stroke: dim, grid: { stroke: line, width: 1 }, font: FONT };
    return {
      width,
      height,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, Math.max(max * 1.08, 1)] } },
      axes: [
        {
          ...axis,
          ticks: { stroke: line },
          values: (_u, ticks) => ticks.map((tick) => tickText(tick, ticks)),
          size: 28,
        },
        {
          ...axis,
          ticks: { stroke: line },
          values: (_u, ticks) => ticks.map((tick) => formatBytes(tick)),
          size: 70,
          incrs: BINARY_STEPS,
        },
      ],
      series: [
        {},
        ...[...this.parts.names].reverse().map((name) => ({
          label: name,
          fill: partColor(name),
          stroke: partColor(name),
          width: 0,
          paths: stepped,
          points: { show: false },
        })),
      ],
      hooks: {
        setCursor: [(u) => this.showLegend(u.cursor.idx ?? null)],
        draw: [(u) => this.markPeak(u)],
      },
    };
  }

  private showLegend(index: number | null): void {
    const { total, time } = this.device;
    const at = index ?? this.peak;
    const when = index === null ? "at the peak" : `at ${formatTime(time[at])}`;
    const items = this.parts.names.map((name, i) => {
      const bytes = this.parts.bytes[i][at];
      const square = element("span", { class: "swatch" });
      square.style.background = partColor(name);
      const text = `${name} ${formatBytes(Math.max(0, bytes))}`;
      return element("span", { class: bytes > 0 ? "legend-item" : "legend-item none" }, square, text);
    });
    replace(this.legend, element("span", { class: "dim" }, `${formatBytes(total[at])} ${when}:`), ...items);
  }

  private markPeak(u: uPlot): void {
    const { accent, text } = this.state.theme;
    const x = u.valToPos(this.device.time[this.peak], "x", true);
    const y = u.valToPos(this.device.total[this.peak], "y", true);
    const { top, height, left, width } = u.bbox;
    if (x < left || x > left + width) return;
    u.ctx.save();
    u.ctx.strokeStyle = accent;
    u.ctx.setLineDash([4, 4]);
    u.ctx.beginPath();
    u.ctx.moveTo(x, top);
    u.ctx.lineTo(x, top + height);
    u.ctx.stroke();
    u.ctx.fillStyle = accent;
    u.ctx.beginPath();
    u.ctx.arc(x, y, 3.5 * devicePixelRatio, 0, 2 * Math.PI);
    u.ctx.fill();
    u.ctx.fillStyle = text;
    u.ctx.textAlign = x > left + width - 60 ? "right" : "left";
    u.ctx.fillText(" peak ", x, top + 10 * devicePixelRatio);
    u.ctx.restore();
  }
}

function tickText(tick: number, ticks: number[]): string {
  return tick === 0 ? "0" : formatMoment(tick, ticks.length > 1 ? ticks[1] - ticks[0] : tick);
}
