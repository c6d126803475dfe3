// Colours, the same in every view.
import { ACTIVITIES, type Activities, type Activity } from "./data/activities";
import { oklch } from "./oklch";

export interface Theme {
  dark: boolean;
  text: string;
  dim: string;
  line: string;
  panel: string;
  background: string;
  sunken: string;
  accent: string;
  spanText: string;
  muted: string; // spans that do not match a search
}

export function currentTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    dark: read("--scheme") === "dark",
    text: read("--text"),
    dim: read("--dim"),
    line: read("--line"),
    panel: read("--panel"),
    background: read("--background"),
    sunken: read("--sunken"),
    accent: read("--accent"),
    spanText: read("--span-text"),
    muted: read("--muted"),
  };
}

// One hue per activity, as --phase-… in style.css; spans that only give structure are pale.
const ACTIVITY_TONES: Record<Activity, [chroma: number, hue: number]> = {
  forward: [0.075, 260],
  backward: [0.075, 300],
  optimizer: [0.08, 160],
  "data loading": [0.09, 80],
  Python: [0.03, 75],
  communication: [0.09, 345],
  memory: [0.07, 205],
  waiting: [0.05, 30],
  "garbage collection": [0.13, 25],
  other: [0.012, 255],
};
const SHADES = 4; // of an activity, by name, to distinguish neighbours

export function activityColor(activity: Activity, dark: boolean, shade = 1): string {
  const [chroma, hue] = ACTIVITY_TONES[activity];
  const lightness = dark ? 0.42 + 0.045 * shade : 0.9 - 0.035 * shade;
  return oklch(lightness, chroma * (dark ? 1.15 : 1), hue);
}

// Colours of spans and names: the hue of the activity, in a shade by name.
export class SpanColors {
  readonly palette: string[];
  private readonly shades: Uint8Array; // of labels

  constructor(
    private readonly spans: { labels: string[]; label: ArrayLike<number> },
    private readonly activities: Activities,
    dark: boolean,
  ) {
    this.palette = ACTIVITIES.flatMap((activity) =>
      Array.from({ length: SHADES }, (_, shade) => activityColor(activity, dark, shade)),
    );
    this.shades = Uint8Array.from(spans.labels, (label) => hash(label) % SHADES);
  }

  indexOf(span: number): number {
    return this.activities.ofSpan[span] * SHADES + this.shades[this.spans.label[span]];
  }

  ofSpan(span: number): string {
    return this.palette[this.indexOf(span)];
  }

  ofLabel(label: number): string {
    return this.palette[this.activities.ofLabel[label] * SHADES + this.shades[label]];
  }
}

// Phases of a training step, by the names of timeline/phases.py, and categories of memory, by those of
// analysis/memory/data_flow.py.
const PART_COLORS: Record<string, string> = {
  "data loading": "--phase-data",
  forward: "--phase-forward",
  backward: "--phase-backward",
  optimizer: "--phase-optimizer",
  "garbage collection": "--phase-gc",
  "allocated before": "--memory-before",
  parameter: "--memory-parameter",
  "optimizer state": "--memory-optimizer",
  input: "--memory-input",
  temporary: "--memory-temporary",
  activation: "--memory-activation",
  gradient: "--memory-gradient",
  "autograd detail": "--memory-autograd",
};

export function partColor(name: string): string {
  const property = PART_COLORS[name] ?? "--phase-other";
  return getComputedStyle(document.documentElement).getPropertyValue(property).trim();
}

// Causes of time, by the names of columns/causes.py, in the hues of related activities.
const CAUSE_TONES: Record<string, [hue: number, chroma?: number]> = {
  operators: [250],
  "torch call overhead": [235, 0.06],
  Python: [75, 0.05],
  "garbage collection": [25],
  imports: [110, 0.06],
  compilation: [130],
  "waiting for a loader": [80],
  "waiting for a lock": [50],
  "waiting for the GIL": [10],
  "waiting for a device": [60],
  collectives: [345],
  "input and output": [180],
  asleep: [325, 0.06],
  memory: [205],
  "waiting for a CPU": [30, 0.05],
  opscope: [275, 0.06],
  copies: [190, 0.06],
};

// Each has a separate colour; idle and unknown time is pale.
export function causeColor(name: string, dark: boolean): string {
  if (name === "unknown" || name === "idle") return oklch(dark ? 0.4 : 0.85, 0.01, 255);
  const [hue, chroma = 0.13] = CAUSE_TONES[name] ?? [hash(name) % 360];
  const isPale = chroma < 0.1;
  return oklch(dark ? (isPale ? 0.72 : 0.55) : isPale ? 0.84 : 0.7, chroma, hue);
}

export function hash(text: string): number {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return (value ^ (value >>> 15)) >>> 0;
}
