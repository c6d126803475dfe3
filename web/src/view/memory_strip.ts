// Memory in use under the lines, on their time axis.
import { partColor } from "../colors";
import type { MemoryDevice } from "../contract";
import { firstAtLeast } from "../data/spans";
import { element, fitCanvas } from "../dom";
import { formatBytes } from "../format";
import { bestParts } from "../panels/memory_facts";
import type { State } from "../state";

const HEIGHT = 40;
const MARGIN = 5;
const MOST_DEVICES = 2; // the panel has them all

export class MemoryStrip {
  readonly root = element("div", { class: "memory-strips" });
  private readonly canvases: HTMLCanvasElement[] = [];
  private readonly devices: MemoryDevice[];

  constructor(private readonly state: State) {
    this.devices = state.report.memory.slice(0, MOST_DEVICES);
    for (const device of this.devices) {
      const canvas = element("canvas");
      this.canvases.push(canvas);
      const name = element(
        "div",
        { class: "strip-name" },
        element("span", { class: "name-title" }, `${device.device} memory`),
        element("span", { class: "name-subtitle" }, `peak ${formatBytes(device.peakBytes)}`),
      );
      this.root.append(element("div", { class: "memory-strip" }, name, canvas));
    }
  }

  get height(): number {
    return this.devices.length * (HEIGHT + 1);
  }

  draw(width: number, perPixel: number): void {
    this.devices.forEach((device, i) => this.drawDevice(device, this.canvases[i], width, perPixel));
  }

  private drawDevice(device: MemoryDevice, canvas: HTMLCanvasElement, width: number, perPixel: number): void {
    const { view } = this.state;
    const context = fitCanvas(canvas, width, HEIGHT);
    context.clearRect(0, 0, width, HEIGHT);
    const bottom = HEIGHT - 1;
    const scale = (HEIGHT - 2 * MARGIN) / Math.max(device.peakBytes, 1);
    const xOf = (time: number) => Math.min(Math.max((time - view.from) / perPixel, -10), width + 10);
    const first = Math.max(firstAtLeast(device.time, view.from) - 1, 0);
    const last = Math.min(firstAtLeast(device.time, view.to) + 1, device.time.length);
    const points = visiblePoints(device, first, last, xOf);
    const { names, bytes } = bestParts(device);
    const sums = points.map(() => 0);
    // From the bottom up, each part between the sums before and after it.
    names.forEach((name, part) => {
      const below = [...sums];
      points.forEach(({ sample }, i) => (sums[i] += Math.max(bytes[part][sample], 0)));
      context.beginPath();
      points.forEach(({ x, end }, i) => {
        context.rect(x, bottom - sums[i] * scale, end - x, (sums[i] - below[i]) * scale);
      });
      context.fillStyle = partColor(name);
      context.fill();
    });
  }
}

interface Point {
  x: number;
  end: number;
  sample: number;
}

// At most two samples per pixel: the highest and the last, which is valid until the next one.
export function visiblePoints(
  device: { time: number[]; total: number[] },
  first: number,
  last: number,
  xOf: (time: number) => number,
): Point[] {
  const points: Point[] = [];
  for (let i = first; i < last;) {
    const x = Math.floor(xOf(device.time[i]));
    let [highest, next] = [i, i + 1];
    for (; next < last && Math.floor(xOf(device.time[next])) === x; next++) {
      if (device.total[next] > device.total[highest]) highest = next;
    }
    const end = next < device.time.length ? Math.floor(xOf(device.time[next])) : Infinity;
    points.push({ x, end: x + 1, sample: highest });
    if (end > x + 1) points.push({ x: x + 1, end, sample: next - 1 });
    i = next;
  }
  const width = Math.floor(xOf(Infinity));
  return points.map((point) => ({ ...point, end: Math.min(point.end, width) }));
}
