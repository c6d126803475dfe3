// What the ranks of a job say, in numbers and in a sentence.
import type { RankSection } from "../contract";
import { formatShare, formatTime } from "../format";
import { median } from "./step_facts";

export const NONE = -1;
const WORTH_SAYING = 0.05;

// Times by rank and step, as they are in the page: plus 1, 0 where there is none.
export class RankTimes {
  readonly steps: number;

  constructor(
    private readonly packed: Float64Array,
    readonly ranks: number,
  ) {
    this.steps = ranks ? packed.length / ranks : 0;
  }

  at(rank: number, step: number): number {
    return this.packed[rank * this.steps + step] - 1;
  }

  ofRank(rank: number): number[] {
    return known(Array.from({ length: this.steps }, (_, step) => this.at(rank, step)));
  }

  ofStep(step: number): number[] {
    return known(Array.from({ length: this.ranks }, (_, rank) => this.at(rank, step)));
  }

  // Of every step, what the middle rank took.
  middles(): number[] {
    return Array.from({ length: this.steps }, (_, step) => median(this.ofStep(step)));
  }
}

// "Rank 3 is the slowest without waiting for others: 31 ms a step, 42% more than the middle one."
export function explainRanks(section: RankSection, own: RankTimes): string {
  const typical = section.names.map((_, rank) => median(own.ofRank(rank)));
  const compared = typical.filter((time) => time > 0);
  if (compared.length < 2) return "Fewer than two processes have steps, so there is nothing to compare.";
  const middle = median(compared);
  const slowest = typical.indexOf(Math.max(...typical));
  const more = typical[slowest] / Math.max(middle, 1) - 1;
  if (more < WORTH_SAYING)
    return `All are alike: without waiting for others, a step takes the slowest ${formatShare(more)} longer than the middle one.`;
  return `Without waiting for others, ${section.names[slowest]} takes longest for a step: ${formatTime(typical[slowest])}, ${formatShare(more)} more than the middle one.`;
}

// Rows of the picture: one for each rank, or for several, where there are more than pixels.
export function ranksPerRow(ranks: number, height: number): number {
  return Math.max(1, Math.ceil(ranks / Math.max(height, 1)));
}

function known(times: number[]): number[] {
  return times.filter((time) => time !== NONE);
}
