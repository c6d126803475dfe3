// Steps side by side: their parts, and the operators that differ between steps.
import { causeColor, partColor } from "../colors";
import type { StepSection } from "../contract";
import { element, fitCanvas } from "../dom";
import { formatShare, formatTime } from "../format";
import type { State } from "../state";
import type { Tooltip } from "../view/tooltip";
import { explainSlowest, median, otherTime, stepFacts } from "./step_facts";
import { absent } from "./tables";

const OTHER = "other (Python, waiting)";
const NAME_WIDTH = 230;
const CELL_HEIGHT = 19;

export function stepsPanel(state: State, tooltip: Tooltip): HTMLElement {
  const { steps } = state.report;
  if (!steps)
    return absent(
      "No steps were found.",
      "A step ends with the optimizer's step(), or is an outermost call of a network (record modules: --modules); or mark them: profile with a schedule and call prof.step().",
    );
  const legend = [
    ...steps.phases.filter((_, i) => steps.phaseTimes.some((times) => times[i] > 0)),
    OTHER,
  ].map((name) => {
    const square = element("span", { class: "swatch" });
    square.style.background = partColor(name);
    return element("span", { class: "legend-item" }, square, name);
  });
  const bars = element("canvas", { class: "step-bars" });
  const byCause = element("canvas", { class: "step-bars step-causes" });
  const matrix = element("canvas", { class: "step-matrix" });
  const missing = steps.allSteps - steps.number.length;
  const host = element(
    "div",
    { class: "steps" },
    element(
      "p",
      { class: "sentence" },
      explainSlowest(steps),
      steps.what && ` Step: ${steps.what}.`,
      missing > 0 ? ` The first ${steps.number.length} of ${steps.allSteps} steps are shown.` : "",
    ),
    element("div", { class: "legend" }, ...legend),
    bars,
    element("h4", {}, "Where each step's time went (main thread)"),
    element("div", { class: "legend" }, ...causeLegend(steps, state)),
    byCause,
    element("h4", {}, "Operators, step by step"),
    element("p", { class: "dim small" }, "Stronger colour: more self time than in other steps."),
    matrix,
  );
  const draw = () => {
    if (host.clientWidth < 100) return;
    drawBars(bars, steps, phaseStack(steps), state, host.clientWidth - 32);
    drawBars(byCause, steps, causeStack(steps, state), state, host.clientWidth - 32);
    drawMatrix(matrix, steps, state, host.clientWidth - 32);
  };
  new ResizeObserver(draw).observe(host);
  listen(bars, steps, state, tooltip, (step) => describeStep(steps, step));
  listen(byCause, steps, state, tooltip, (step) => describeCauses(steps, step));
  listen(matrix, steps, state, tooltip, (step, y) => describeCell(steps, step, Math.floor(y / CELL_HEIGHT)));
  return host;
}

const BARS_HEIGHT = 132;
const AXIS_HEIGHT = 18;

function stepWidth(steps: StepSection, width: number): number {
  return Math.min((width - NAME_WIDTH) / steps.number.length, 110);
}

// Parts of a step's bar.
interface Stack {
  names: string[];
  color: (name: string) => string;
  parts: (step: number) => number[];
}

function phaseStack(steps: StepSection): Stack {
  return {
    names: [...steps.phases, OTHER],
    color: partColor,
    parts: (step) => [...steps.phaseTimes[step], otherTime(steps, step)],
  };
}

function causeStack(steps: StepSection, state: State): Stack {
  const color = (name: string) => causeColor(name, state.theme.dark);
  return { names: steps.causes, color, parts: (step) => steps.causeTimes[step] };
}

function causeLegend(steps: StepSection, state: State): HTMLElement[] {
  return steps.causes.map((name, i) => {
    const square = element("span", { class: "swatch" });
    square.style.background = causeColor(name, state.theme.dark);
    return element("span", { class: "legend-item", title: steps.causeMeanings[i] }, square, name);
  });
}

function drawBars(
  canvas: HTMLCanvasElement,
  steps: StepSection,
  stack: Stack,
  state: State,
  width: number,
): void {
  const context = fitCanvas(canvas, width, BARS_HEIGHT + AXIS_HEIGHT);
  context.clearRect(0, 0, width, BARS_HEIGHT + AXIS_HEIGHT);
  const most = Math.max(...steps.duration, 1);
  const each = stepWidth(steps, width);
  const colors = stack.names.map(stack.color);
  const tops: number[] = [];
  context.font = "11px system-ui, sans-serif";
  for (let step = 0; step < steps.number.length; step++) {
    const parts = stack.parts(step);
    // Threads work at the same time, so parts can add up to more than the step.
    const scale = ((steps.duration[step] / Math.max(sum(parts), 1)) * (BARS_HEIGHT - 18)) / most;
    let y = BARS_HEIGHT;
    const x = NAME_WIDTH + step * each;
    parts.forEach((part, i) => {
      context.fillStyle = colors[i];
      context.fillRect(x, y - part * scale, Math.max(each - (each > 6 ? 3 : 0), 0.8), part * scale);
      y -= part * scale;
    });
    tops.push(y);
    if (each > 24 || step % Math.ceil(40 / each) === 0) {
      writeCentred(context, String(steps.number[step]), x + each / 2, BARS_HEIGHT + 13, state.theme.dim);
    }
  }
  drawMedian(context, steps, state, width, most);
  if (each <= 52) return;
  context.strokeStyle = state.theme.panel; // around the texts, so that the line of the median ends at them
  context.lineWidth = 4;
  tops.forEach((top, step) => {
    const text = formatTime(steps.duration[step]);
    const x = NAME_WIDTH + (step + 0.5) * each;
    context.strokeText(text, x - context.measureText(text).width / 2, top - 6);
    writeCentred(context, text, x, top - 6, state.theme.dim);
  });
}

function drawMedian(
  context: CanvasRenderingContext2D,
  steps: StepSection,
  state: State,
  width: number,
  most: number,
): void {
  const typical = stepFacts(steps).median;
  const y = Math.round(BARS_HEIGHT - (typical / most) * (BARS_HEIGHT - 18)) + 0.5;
  context.strokeStyle = state.theme.dim;
  context.setLineDash([3, 3]);
  context.beginPath();
  context.moveTo(NAME_WIDTH - 6, y);
  context.lineTo(Math.min(NAME_WIDTH + steps.number.length * stepWidth(steps, width), width), y);
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = state.theme.dim;
  context.textAlign = "right";
  context.fillText(`median ${formatTime(typical)}`, NAME_WIDTH - 10, y + 4);
  context.textAlign = "left";
}

function drawMatrix(canvas: HTMLCanvasElement, steps: StepSection, state: State, width: number): void {
  const height = Math.max(steps.labels.length * CELL_HEIGHT, 1);
  const context = fitCanvas(canvas, width, height);
  context.clearRect(0, 0, width, height);
  const each = stepWidth(steps, width);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  steps.labels.forEach((label, row) => {
    const values = steps.labelTimes.map((times) => times[row]);
    const most = Math.max(...values, 1);
    const y = row * CELL_HEIGHT;
    context.fillStyle = state.theme.text;
    context.fillText(label.length > 36 ? `${label.slice(0, 35)}…` : label, 0, y + CELL_HEIGHT / 2);
    values.forEach((value, step) => {
      context.fillStyle = partColor("forward");
      context.globalAlpha = 0.06 + 0.84 * (value / most) ** 2;
      context.fillRect(
        NAME_WIDTH + step * each,
        y,
        Math.max(each - (each > 6 ? 3 : 0), 0.8),
        CELL_HEIGHT - 2,
      );
      context.globalAlpha = 1;
      if (each > 52)
        writeCentred(
          context,
          formatTime(value),
          NAME_WIDTH + (step + 0.5) * each,
          y + CELL_HEIGHT / 2,
          state.theme.text,
        );
    });
  });
}

function listen(
  canvas: HTMLCanvasElement,
  steps: StepSection,
  state: State,
  tooltip: Tooltip,
  describe: (step: number, y: number) => { title: string; lines: string[] } | null,
): void {
  const stepAt = (event: MouseEvent) => {
    const { left, width } = canvas.getBoundingClientRect();
    const step = Math.floor((event.clientX - left - NAME_WIDTH) / stepWidth(steps, width));
    return step >= 0 && step < steps.number.length ? step : -1;
  };
  canvas.addEventListener("pointermove", (event) => {
    const step = stepAt(event);
    const found = step < 0 ? null : describe(step, event.clientY - canvas.getBoundingClientRect().top);
    canvas.style.cursor = found ? "pointer" : "default";
    if (found) tooltip.show(event.clientX, event.clientY, found.title, found.lines);
    else tooltip.hide();
  });
  canvas.addEventListener("pointerleave", () => tooltip.hide());
  canvas.addEventListener("click", (event) => {
    const step = stepAt(event);
    if (step < 0) return;
    const from = steps.start[step];
    state.focus(from, from + steps.duration[step]);
  });
}

function describeCauses(steps: StepSection, step: number) {
  const lines = steps.causes
    .map((name, cause) => ({ name, time: steps.causeTimes[step][cause] }))
    .filter(({ time }) => time > 0)
    .sort((a, b) => b.time - a.time)
    .map(({ name, time }) => `${name}: ${formatTime(time)} (${share(time, steps.duration[step])})`);
  return { title: `Step ${steps.number[step]}: ${formatTime(steps.duration[step])}`, lines };
}

function share(time: number, whole: number): string {
  return formatShare(time / Math.max(whole, 1));
}

function describeStep(steps: StepSection, step: number) {
  const parts = [...steps.phases, OTHER].map((name, i) => ({
    name,
    time: i < steps.phases.length ? steps.phaseTimes[step][i] : otherTime(steps, step),
  }));
  const lines = parts
    .filter((part) => part.time > 0)
    .map(
      ({ name, time }) =>
        `${name}: ${formatTime(time)} (${formatShare(time / Math.max(steps.duration[step], 1))})`,
    );
  const busy = steps.deviceBusy[step];
  const device = busy ? `device busy: ${formatTime(busy)} (${formatShare(busy / steps.duration[step])})` : "";
  return {
    title: `Step ${steps.number[step]}: ${formatTime(steps.duration[step])}`,
    lines: [...lines, device, "Click to show it in the timeline"],
  };
}

function describeCell(steps: StepSection, step: number, row: number) {
  if (row < 0 || row >= steps.labels.length) return null;
  const values = steps.labelTimes.map((times) => times[row]);
  return {
    title: steps.labels[row],
    lines: [
      `Step ${steps.number[step]}: ${formatTime(values[step])}`,
      `Median of all steps: ${formatTime(median(values))}`,
    ],
  };
}

function writeCentred(
  context: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  color: string,
): void {
  context.fillStyle = color;
  context.textAlign = "center";
  context.fillText(text, x, y);
  context.textAlign = "left";
}

function sum(values: number[]): number {
  return values.reduce((a, b) => a + b, 0);
}
