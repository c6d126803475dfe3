// One colour per name, the same in every view; quiet tones for what only gives structure.
import { Kind } from "./contract";
import { oklch } from "./oklch";

const HUES = [250, 215, 185, 160, 135, 105, 80, 60, 40, 20, 345, 320, 295, 272];

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
  muted: string; // spans that a search leaves out
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

export function labelColor(name: string, kind: number, dark: boolean): string {
  switch (kind) {
    case Kind.annotation:
    case Kind.deviceAnnotation:
      return oklch(dark ? 0.4 : 0.88, 0.015, 255);
    case Kind.pythonCall:
    case Kind.cCall:
      return oklch(dark ? 0.42 : 0.9, 0.03, 70 + (hash(name) % 5) * 8);
    case Kind.gcPause:
      return oklch(dark ? 0.52 : 0.75, 0.14, 25);
    case Kind.moduleCall:
      return oklch(dark ? 0.45 : 0.85, 0.06, 285 + (hash(name) % 5) * 8);
    default:
      return oklch(dark ? 0.52 : 0.84, dark ? 0.085 : 0.075, HUES[hash(name) % HUES.length]);
  }
}

// Colours of all labels, each distinct one once.
export class LabelColors {
  readonly palette: string[] = [];
  readonly indexOfLabel: Uint16Array;

  constructor(labels: string[], kinds: number[], dark: boolean) {
    const known = new Map<string, number>();
    this.indexOfLabel = Uint16Array.from(labels, (label, i) => {
      const color = labelColor(label, kinds[i], dark);
      let index = known.get(color);
      if (index === undefined) {
        index = this.palette.push(color) - 1;
        known.set(color, index);
      }
      return index;
    });
  }

  of(label: number): string {
    return this.palette[this.indexOfLabel[label]];
  }
}

// Parts of a training step, by the names of timeline/phases.py, and what memory is for, by those of
// analysis/memory/timeline.py.
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

// Causes of time, by the names of analysis/account/causes.py: work in cool hues, waiting in warm ones,
// and those that often stand beside each other far apart.
const CAUSE_HUES: Record<string, number> = {
  operators: 250,
  "torch around operators": 205,
  Python: 145,
  "garbage collection": 0,
  imports: 170,
  compilation: 120,
  "waiting for a loader": 85,
  "waiting for a lock": 30,
  "waiting for the GIL": 345,
  "waiting for a device": 60,
  collectives: 300,
  "input and output": 105,
  asleep: 325,
  memory: 225,
  "waiting for a processor": 15,
  opscope: 275,
  copies: 185,
};
const PALE = new Set(["waiting for a processor", "torch around operators", "opscope", "asleep", "copies"]);

// Each has a colour of its own, and a quiet tone where nothing was done or known.
export function causeColor(name: string, dark: boolean): string {
  if (name === "unknown" || name === "nothing to do") return oklch(dark ? 0.4 : 0.85, 0.01, 255);
  const hue = CAUSE_HUES[name] ?? HUES[hash(name) % HUES.length];
  return PALE.has(name) ? oklch(dark ? 0.72 : 0.86, 0.08, hue) : oklch(dark ? 0.55 : 0.7, 0.13, hue);
}

export function hash(text: string): number {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return (value ^ (value >>> 15)) >>> 0;
}
