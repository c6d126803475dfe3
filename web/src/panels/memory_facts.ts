// Sentences about a device's memory peak.
import type { MemoryDevice, MemoryGroup, MemoryParts } from "../contract";
import { formatBytes, formatShare, formatTime } from "../format";
import type { State } from "../state";

const MOST_NAMED = 3;
const WORTH_NAMING = 0.02;

// Parts of the chart: categories of memory, if known.
export function bestParts(device: MemoryDevice): MemoryParts {
  return device.byCategory ?? device.byPhase;
}

// Parts of the peak, in the most informative grouping.
export function largestGroups(device: MemoryDevice, count: number): MemoryGroup[] {
  const { category, phase, operator, line } = device.groups;
  const telling =
    [category, phase].find((groups) => groups.length > 1) ?? (operator.length ? operator : line);
  return telling.slice(0, count);
}

// "at 4.2 ms, in step 3"
export function peakMoment(state: State, device: MemoryDevice): string {
  const { steps } = state.report;
  const step =
    steps?.start.findIndex(
      (start, i) => start <= device.peakTime && device.peakTime < start + steps.duration[i],
    ) ?? -1;
  const where = steps && step >= 0 ? `, in step ${steps.number[step]}` : "";
  return `at ${formatTime(device.peakTime)}${where}`;
}

// "46.9% activation, 27.1% input. 536 KiB of it was allocated before the recording."
export function explainPeak(device: MemoryDevice): string {
  const { peakBytes, beforeBytes, groups } = device;
  if (beforeBytes >= peakBytes) return "All of it was allocated before the recording.";
  const named = largestGroups(device, MOST_NAMED)
    .filter((group) => group.bytes >= WORTH_NAMING * peakBytes)
    .map((group) => `${formatShare(group.bytes / peakBytes)} ${group.name}`);
  const operator = groups.operator.find((group) => group.before < group.bytes);
  const largest =
    operator && groups.category.length > 1
      ? ` Most was allocated by ${operator.name}: ${formatBytes(operator.bytes)}.`
      : "";
  const before =
    beforeBytes >= WORTH_NAMING * peakBytes
      ? ` ${formatBytes(beforeBytes)} of it was allocated before the recording.`
      : "";
  return `${named.join(", ")}.${largest}${before}`;
}
