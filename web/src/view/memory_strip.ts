// Memory in use under the lines, on their time axis.
import { phaseColor } from "../colors";
import type { MemoryDevice } from "../contract";
import { firstAtLeast } from "../data/spans";
import { element, fitCanvas } from "../dom";
import { formatBytes } from "../format";
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
    context.beginPath();
    context.moveTo(xOf(device.time[first]), bottom);
    for (let i = first; i < last; i++) {
      const y = bottom - Math.max(device.total[i], 0) * scale;
      context.lineTo(xOf(device.time[i]), y);
      context.lineTo(xOf(i + 1 < device.time.length ? device.time[i + 1] : view.to), y);
    }
    context.lineTo(xOf(last < device.time.length ? device.time[last] : view.to), bottom);
    context.fillStyle = phaseColor("forward");
    context.globalAlpha = 0.5;
    context.fill();
    context.globalAlpha = 1;
  }
}
