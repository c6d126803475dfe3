// Figures about the ranks of a job.
import { median } from "./step_facts";

export const NONE = -1;

// Times by rank and step as in the page: plus 1; 0 for none.
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

  // Median over ranks for every step.
  middles(): number[] {
    return Array.from({ length: this.steps }, (_, step) => median(this.ofStep(step)));
  }
}

// Rows of the picture: one per rank, or per group of ranks if there are more ranks than pixels.
export function ranksPerRow(ranks: number, height: number): number {
  return Math.max(1, Math.ceil(ranks / Math.max(height, 1)));
}

function known(times: number[]): number[] {
  return times.filter((time) => time !== NONE);
}
