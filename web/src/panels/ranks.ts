// The processes of a job: a picture of all steps of all processes, and causes of their time.
import { causeColor } from "../colors";
import type { RankSection } from "../contract";
import { element, fitCanvas } from "../dom";
import { formatShare, formatTime } from "../format";
import { oklch } from "../oklch";
import type { State } from "../state";
import { segments } from "../view/segments";
import { textTable } from "../view/text_table";
import type { Tooltip } from "../view/tooltip";
import { NONE, RankTimes, ranksPerRow } from "./rank_facts";
import { median } from "./step_facts";

const NAME_WIDTH = 110;
const MARGIN = 32;
const MOST_HEIGHT = 480;
const MOST_ROW = 22;
const NAME_HEIGHT = 13; // a row this high has room for its name
const SHADES = 41; // from half of the median to double
const AXIS_HEIGHT = 18;

type Shown = "whole" | "own";

export function ranksPanel(state: State, section: RankSection, tooltip: Tooltip): HTMLElement {
  const count = section.names.length;
  const times: Record<Shown, RankTimes> = {
    whole: new RankTimes(state.rankTimes.rankTime ?? new Float64Array(), count),
    own: new RankTimes(state.rankTimes.rankOwn ?? new Float64Array(), count),
  };
  let shown: Shown = "own";
  const picture = element("canvas", { class: "rank-picture" });
  const causes = element("canvas", { class: "rank-causes" });
  const hidden = section.onTimeline.filter((on) => !on).length;
  const cut = section.allSteps - section.steps.length;
  const show = (which: Shown) => {
    shown = which;
    if (picture.isConnected) draw();
  };
  const host = element(
    "div",
    { class: "steps" },
    element(
      "p",
      { class: "sentence" },
      section.sentences.join(" "),
      section.what && ` Step: ${section.what}.`,
      cut > 0 && ` The first ${section.steps.length} of ${section.allSteps} steps are shown.`,
      hidden > 0 && ` The timeline shows ${count - hidden} of ${count} processes.`,
    ),
    segments("Times of steps", [
      { text: "Own time", choose: () => show("own") },
      { text: "Whole step", choose: () => show("whole") },
    ]),
    picture,
    element("h4", {}, "Time by cause"),
    element("div", { class: "legend" }, ...legend(section, state)),
    causes,
    element("h4", {}, "Collectives: waiting and transfer times"),
    element("p", { class: "sentence" }, section.together.sentences.join(" ")),
    ...section.together.tables.map(textTable),
  );
  const draw = () => {
    if (host.clientWidth < 100) return;
    drawPicture(picture, section, times[shown], state, host.clientWidth - MARGIN);
    drawCauses(causes, section, state, host.clientWidth - MARGIN);
  };
  new ResizeObserver(draw).observe(host);
  listen(picture, tooltip, (x, y, width) => describeCell(section, times, x, y, width));
  listen(causes, tooltip, (_, y) => describeCauses(section, y));
  return host;
}

function rowHeight(ranks: number): number {
  return Math.max(1, Math.min(MOST_ROW, Math.floor(MOST_HEIGHT / ranks)));
}

function shade(ratio: number, dark: boolean): string {
  // Half to double on a logarithmic scale; the median has the colour of the page.
  const place = Math.min(1, Math.max(-1, Math.log2(Math.max(ratio, 1e-9))));
  const strength = Math.abs(place);
  const base = dark ? 0.33 : 0.93;
  const full = dark ? 0.68 : 0.6;
  return oklch(base + (full - base) * strength, 0.02 + 0.16 * strength, place > 0 ? 35 : 240);
}

function drawPicture(
  canvas: HTMLCanvasElement,
  section: RankSection,
  times: RankTimes,
  state: State,
  width: number,
): void {
  const ranks = section.names.length;
  const [each, perRow] = [rowHeight(ranks), ranksPerRow(ranks, MOST_HEIGHT)];
  const rows = Math.ceil(ranks / perRow);
  const height = rows * each;
  const context = fitCanvas(canvas, width, height + AXIS_HEIGHT);
  context.clearRect(0, 0, width, height + AXIS_HEIGHT);
  if (!times.steps) return;
  const palette = Array.from({ length: SHADES }, (_, i) =>
    shade(2 ** ((2 * i) / (SHADES - 1) - 1), state.theme.dark),
  );
  const middles = times.middles();
  const wide = Math.min((width - NAME_WIDTH) / times.steps, 60);
  const [gapX, gapY] = [wide > 6 ? 1 : 0, each > 4 ? 1 : 0];
  for (let row = 0; row < rows; row++) {
    for (let step = 0; step < times.steps; step++) {
      let most = NONE;
      for (let rank = row * perRow; rank < Math.min((row + 1) * perRow, ranks); rank++)
        most = Math.max(most, times.at(rank, step));
      if (most === NONE) continue;
      const place = Math.min(1, Math.max(-1, Math.log2(Math.max(most, 1) / Math.max(middles[step], 1))));
      context.fillStyle = palette[Math.round(((place + 1) / 2) * (SHADES - 1))];
      context.fillRect(NAME_WIDTH + step * wide, row * each, Math.max(wide - gapX, 0.8), each - gapY);
    }
  }
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = state.theme.dim;
  drawNames(context, section, perRow, each, rows);
  const every = Math.max(1, Math.ceil(50 / wide));
  context.textAlign = "center";
  for (let step = 0; step < times.steps; step += every)
    context.fillText(String(section.steps[step]), NAME_WIDTH + (step + 0.5) * wide, height + 13);
  context.textAlign = "left";
}

// If rows are too low for a name each, as many names as fit.
function drawNames(
  context: CanvasRenderingContext2D,
  section: RankSection,
  perRow: number,
  each: number,
  rows: number,
): void {
  context.textBaseline = "middle";
  const every = Math.ceil(NAME_HEIGHT / each);
  for (let row = 0; row < rows; row += every)
    context.fillText(section.names[row * perRow], 0, row * each + Math.max(each, NAME_HEIGHT) / 2);
  context.textBaseline = "alphabetic";
}

function drawCauses(canvas: HTMLCanvasElement, section: RankSection, state: State, width: number): void {
  const ranks = section.names.length;
  const [each, perRow] = [rowHeight(ranks), ranksPerRow(ranks, MOST_HEIGHT)];
  const rows = Math.ceil(ranks / perRow);
  const context = fitCanvas(canvas, width, rows * each);
  context.clearRect(0, 0, width, rows * each);
  const colors = section.causes.map((name) => causeColor(name, state.theme.dark));
  for (let row = 0; row < rows; row++) {
    const times = section.causeTimes[row * perRow];
    const whole = Math.max(
      times.reduce((a, b) => a + b, 0),
      1,
    );
    let x = NAME_WIDTH;
    times.forEach((time, cause) => {
      const part = (time / whole) * (width - NAME_WIDTH);
      context.fillStyle = colors[cause];
      context.fillRect(x, row * each, part, each - (each > 4 ? 1 : 0));
      x += part;
    });
  }
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = state.theme.dim;
  drawNames(context, section, perRow, each, rows);
}

function legend(section: RankSection, state: State): HTMLElement[] {
  return section.causes.map((name, i) => {
    const square = element("span", { class: "swatch" });
    square.style.background = causeColor(name, state.theme.dark);
    return element("span", { class: "legend-item", title: section.causeMeanings[i] }, square, name);
  });
}

type Described = { title: string; lines: string[] } | null;

function describeCell(
  section: RankSection,
  times: Record<Shown, RankTimes>,
  x: number,
  y: number,
  width: number,
): Described {
  const ranks = section.names.length;
  const perRow = ranksPerRow(ranks, MOST_HEIGHT);
  const row = Math.floor(y / rowHeight(ranks));
  const wide = Math.min((width - NAME_WIDTH) / Math.max(times.own.steps, 1), 60);
  const step = Math.floor((x - NAME_WIDTH) / wide);
  if (row < 0 || row * perRow >= ranks || step < 0 || step >= times.own.steps) return null;
  // The rank that a row of several ranks shows.
  const members = section.names.map((_, rank) => rank).slice(row * perRow, (row + 1) * perRow);
  const rank = members.reduce((a, b) => (times.own.at(b, step) > times.own.at(a, step) ? b : a));
  if (times.whole.at(rank, step) === NONE) return null;
  return {
    title: `${section.names[rank]}, step ${section.steps[step]}`,
    lines: [
      `Whole: ${formatTime(times.whole.at(rank, step))}`,
      `Own time: ${formatTime(times.own.at(rank, step))}`,
      `Median of all ranks: ${formatTime(median(times.own.ofStep(step)))}`,
    ],
  };
}

function describeCauses(section: RankSection, y: number): Described {
  const ranks = section.names.length;
  const rank = Math.floor(y / rowHeight(ranks)) * ranksPerRow(ranks, MOST_HEIGHT);
  if (rank < 0 || rank >= ranks) return null;
  const times = section.causeTimes[rank];
  const whole = Math.max(
    times.reduce((a, b) => a + b, 0),
    1,
  );
  const lines = section.causes
    .map((name, cause) => ({ name, time: times[cause] }))
    .filter(({ time }) => time > 0)
    .sort((a, b) => b.time - a.time)
    .map(({ name, time }) => `${name}: ${formatTime(time)} (${formatShare(time / whole)})`);
  return { title: section.names[rank], lines };
}

function listen(
  canvas: HTMLCanvasElement,
  tooltip: Tooltip,
  describe: (x: number, y: number, width: number) => Described,
): void {
  canvas.addEventListener("pointermove", (event) => {
    const { left, top, width } = canvas.getBoundingClientRect();
    const found = describe(event.clientX - left, event.clientY - top, width);
    if (found) tooltip.show(event.clientX, event.clientY, found.title, found.lines);
    else tooltip.hide();
  });
  canvas.addEventListener("pointerleave", () => tooltip.hide());
}
