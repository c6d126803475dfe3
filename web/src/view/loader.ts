// Requests the spans of the visible window if the page does not have them.
import type { TimeRange } from "../data/selection";
import type { State } from "../state";

const QUIET_MS = 60; // without a change of the window, before a request
const FINER = 1.6; // minimum gain of resolution for a new request

export class Loader {
  private timer = 0;
  private isWaiting = false;

  constructor(
    private readonly state: State,
    private readonly failed: (reason: string) => void,
  ) {
    state.on(["view"], () => this.schedule());
  }

  private schedule(): void {
    clearTimeout(this.timer);
    if (!this.wanted()) return;
    this.timer = window.setTimeout(() => void this.load(), QUIET_MS);
  }

  // Range to request; null if the loaded spans suffice.
  private wanted(): TimeRange | null {
    const { view, duration, spans } = this.state;
    const { window } = spans;
    if (!window) return null;
    const from = Math.max(view.from, 0);
    const to = Math.min(view.to, duration);
    const least = (to - from) / window.pixels;
    const isInside = from >= window.from && to <= window.to;
    if (isInside && window.least <= least * FINER) return null;
    const margin = (to - from) / 4;
    return { from: Math.max(0, from - margin), to: Math.min(duration, to + margin) };
  }

  private async load(): Promise<void> {
    if (this.isWaiting) return this.schedule();
    const wanted = this.wanted();
    if (!wanted) return;
    this.isWaiting = true;
    try {
      this.state.setSpans(await this.state.source.spans(wanted));
      this.failed("");
    } catch (error) {
      this.failed(error instanceof Error ? error.message : String(error));
    } finally {
      this.isWaiting = false;
    }
    if (this.wanted()) this.schedule();
  }
}
