// What there is to say of a device's memory peak.
import type { MemoryDevice } from "../contract";
import { formatTime } from "../format";
import type { State } from "../state";

export interface PeakGroup {
  name: string;
  bytes: number;
  phase: boolean;
}

// By part of the step if that tells anything apart, else by operator.
export function largestGroups(device: MemoryDevice, count: number): PeakGroup[] {
  const byPhase = device.groups.phase.filter((group) => group.name).length > 1;
  const groups = byPhase ? device.groups.phase : device.groups.operator;
  return groups.slice(0, count).map(({ name, bytes }) => ({ name, bytes, phase: byPhase }));
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
