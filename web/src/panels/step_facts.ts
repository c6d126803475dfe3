// Figures and sentences about the steps of a run.
import type { StepSection } from "../contract";
import { formatTime } from "../format";

export interface StepFacts {
  median: number;
  slowest: number; // position among the steps
  phaseMedians: number[];
  otherMedian: number;
}

export function stepFacts(steps: StepSection): StepFacts {
  return {
    median: median(steps.duration),
    slowest: steps.duration.indexOf(Math.max(...steps.duration)),
    phaseMedians: steps.phases.map((_, phase) => median(steps.phaseTimes.map((times) => times[phase]))),
    otherMedian: median(steps.duration.map((_, step) => otherTime(steps, step))),
  };
}

// The step whose duration is nearest to the median: its parts add up, as medians of parts do not.
export function typicalStep(steps: StepSection): number {
  const typical = median(steps.duration);
  const distance = steps.duration.map((duration) => Math.abs(duration - typical));
  return distance.indexOf(Math.min(...distance));
}

export function otherTime(steps: StepSection, step: number): number {
  return Math.max(0, steps.duration[step] - steps.busy[step]);
}

// "Step 3 was the slowest: 9.1 ms, 1.6 times the median. 2.4 ms more of data loading."
export function explainSlowest(steps: StepSection): string {
  const { median: typical, slowest, phaseMedians, otherMedian } = stepFacts(steps);
  if (steps.duration.length < 2) return "Only one step was recorded; a comparison needs two.";
  const duration = steps.duration[slowest];
  const ratio = duration / Math.max(typical, 1);
  if (ratio < 1.1)
    return `All steps are within 10% of the median, or faster; the slowest took ${formatTime(duration)}.`;
  const excess = [
    ...steps.phases.map((name, phase) => ({
      name,
      more: steps.phaseTimes[slowest][phase] - phaseMedians[phase],
    })),
    { name: "Python or waiting", more: otherTime(steps, slowest) - otherMedian },
  ].sort((a, b) => b.more - a.more)[0];
  const cause =
    excess.more > 0
      ? ` Most of that is ${excess.name}: ${formatTime(excess.more)} more than the median.`
      : "";
  return `Step ${steps.number[slowest]} was the slowest: ${formatTime(duration)}, ${ratio.toFixed(1)} times the median.${cause}`;
}

export function median(values: number[]): number {
  if (!values.length) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
