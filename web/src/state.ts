// State of the view. Views change it here, and are notified of changes.
import { SpanColors, currentTheme, type Theme } from "./colors";
import type { Report } from "./contract";
import { Activities } from "./data/activities";
import { Search } from "./data/search";
import type { TimeRange } from "./data/selection";
import { PageSource, type Source } from "./data/source";
import type { Spans } from "./data/spans";
import type { Columns, OfRanks } from "./data/unpack";

const MOST_ROWS_AT_FIRST = 14; // above this depth, Python calls are hidden at first

export type Change = "view" | "selection" | "search" | "tab" | "theme" | "rows" | "spans" | "marks";

export interface Note {
  time: number;
  text: string;
}

const SHORTEST_VIEW = 20; // nanoseconds across the window

export class State {
  view: TimeRange;
  range: TimeRange | null = null;
  selected = -1;
  staying = false;
  search: Search | null = null;
  tab = "overview";
  theme: Theme;
  colors: SpanColors;
  overviewColors: SpanColors;
  activities: Activities;
  query: string | null = null; // as last written in the SQL panel
  pinned: string[] = []; // names of pinned lines
  notes: Note[] = [];
  readonly duration: number;
  readonly overview: Spans; // of the whole recording
  private readonly firstView: TimeRange;
  private readonly listeners = new Map<Change, (() => void)[]>();

  constructor(
    readonly report: Report,
    public spans: Spans,
    readonly rankTimes: Pick<Columns, OfRanks> = {},
    readonly source: Source = new PageSource(),
  ) {
    this.overview = spans;
    this.duration = Math.max(spans.maxTime, report.run.duration, 1);
    this.view = this.wholeView();
    if (report.period.leftOut) this.showPeriod();
    this.firstView = this.view;
    this.theme = currentTheme();
    this.activities = new Activities(spans);
    this.colors = this.overviewColors = this.makeColors();
    const deepest = Math.max(0, ...spans.all.rows.map((rows) => rows.length));
    // Spans merged with Python calls would be hidden with them.
    if (deepest > MOST_ROWS_AT_FIRST && spans.hasPython && !spans.window) spans.showPython(false);
  }

  on(changes: Change[], listener: () => void): void {
    for (const change of changes) {
      const known = this.listeners.get(change);
      if (known) known.push(listener);
      else this.listeners.set(change, [listener]);
    }
  }

  setView(from: number, to: number): void {
    const whole = this.wholeView();
    const width = Math.min(Math.max(to - from, SHORTEST_VIEW), whole.to - whole.from);
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(middle - width / 2, whole.from), whole.to - width);
    if (start === this.view.from && start + width === this.view.to) return;
    this.view = { from: start, to: start + width };
    this.tell("view");
  }

  zoom(factor: number, around: number): void {
    const { from, to } = this.view;
    this.setView(around - (around - from) * factor, around + (to - around) * factor);
  }

  pan(share: number): void {
    const shift = (this.view.to - this.view.from) * share;
    const whole = this.wholeView();
    const allowed = Math.max(whole.from - this.view.from, Math.min(shift, whole.to - this.view.to));
    this.setView(this.view.from + allowed, this.view.to + allowed);
  }

  showAll(): void {
    const whole = this.wholeView();
    this.setView(whole.from, whole.to);
  }

  get seesWhatCameFirst(): boolean {
    return this.view.from === this.firstView.from && this.view.to === this.firstView.to;
  }

  // Makes a period fill most of the window.
  focus(from: number, to: number): void {
    const margin = Math.max((to - from) * 0.15, SHORTEST_VIEW / 2);
    this.setView(from - margin, to + margin);
  }

  // Replaces the spans by those of another window. Keeps the selection if it is among them.
  setSpans(spans: Spans): void {
    const before = this.spans;
    const known = this.selected;
    const pythonShown = this.pythonShown;
    this.spans = spans;
    if (!pythonShown) spans.showPython(false);
    this.activities = new Activities(spans);
    this.colors = this.makeColors();
    this.labelNumbers = undefined;
    if (this.search) this.search = new Search(spans, this.search.text, this.search.exact);
    if (known >= 0)
      this.selected = spans.same(
        before.lines[before.lineOf(known)],
        before.start[known],
        before.end[known],
        before.labels[before.label[known]],
      );
    this.tell("spans");
    if (this.search) this.tell("search");
  }

  // The page's time of a start_ns (Unix) or a start_us (since the first event), as in the tables; null outside
  // the recording.
  timeOf(column: string, moment: string): number | null {
    let time = NaN;
    if (column === "start_ns" && /^\d{1,19}$/.test(moment))
      time = Number(BigInt(moment) - BigInt(this.report.run.startedNs));
    else if (column === "start_us")
      time = Number(moment) * 1000 + this.overview.start.reduce((a, b) => Math.min(a, b), Infinity);
    return time >= 0 && time <= this.duration ? time : null;
  }

  // Moves to the next match; if not all spans are loaded, the server finds it.
  async goToNext(direction: 1 | -1): Promise<void> {
    const { search, spans } = this;
    if (!search) return;
    if (!spans.window) {
      const next = search.next(this.selected, direction);
      if (next >= 0) this.goTo(next);
      return;
    }
    const middle = (this.view.from + this.view.to) / 2;
    const after = this.selected >= 0 ? spans.start[this.selected] : (this.found ?? middle);
    const { next } = await this.source.find(search.text, search.exact, after, direction);
    if (!next) return;
    this.found = next[0];
    this.selected = -1;
    const width = Math.max((next[1] - next[0]) * 8, SHORTEST_VIEW);
    this.setView((next[0] + next[1] - width) / 2, (next[0] + next[1] + width) / 2);
    this.tell("selection");
  }
  private found: number | null = null; // begin of the last match moved to

  select(span: number): void {
    if (span >= 0 && !this.spans.shown.has(span)) this.showPython(true);
    this.selected = span;
    this.range = null;
    this.tell("selection");
  }

  selectRange(range: TimeRange | null): void {
    this.range = range;
    this.selected = -1;
    this.tell("selection");
  }

  // Selects a span and brings it into the window, wherever that is now.
  // `staying` keeps the current panel open instead of the one that describes the span.
  goTo(span: number, staying = false): void {
    this.staying = staying;
    const { from, to } = this.view;
    const [start, end] = [this.spans.start[span], this.spans.end[span]];
    const small = end - start < (to - from) / 400;
    if (start < from || end > to || small) {
      const width = Math.max((end - start) * 8, SHORTEST_VIEW);
      this.setView((start + end - width) / 2, (start + end + width) / 2);
    }
    this.select(span);
    this.staying = false;
  }

  setSearch(text: string, exact = false): void {
    if (this.search?.text === text && !exact) return;
    this.search = text.trim() ? new Search(this.spans, text.trim(), exact) : null;
    this.tell("search");
  }

  // Marks all spans of a name and makes them visible: shows Python calls if needed, and moves the
  // window to the next one if none is in it.
  showAllOf(name: string, exact = false): void {
    this.setSearch(name, exact);
    const { search, spans } = this;
    if (!search?.spanCount) return;
    if (!this.pythonShown && search.onlyPython) this.showPython(true);
    const { from, to } = this.view;
    if (search.anyIn(from, to)) return;
    const next = search.next(-1, 1);
    const width = Math.max((spans.end[next] - spans.start[next]) * 8, (to - from) / 8, SHORTEST_VIEW);
    const middle = (spans.start[next] + spans.end[next]) / 2;
    this.setView(middle - width / 2, middle + width / 2);
  }

  // Selects the Python call that starts at the first of these times; the next one if called again.
  goToCall(starts: number[]): void {
    const calls = this.spans.callsStartingAt(starts);
    if (calls.length) this.goTo(calls[(calls.indexOf(this.selected) + 1) % calls.length], true);
  }

  // A selected Python call stays selected only while it is shown.
  showPython(show: boolean): void {
    if (!this.spans.hasPython || show === this.pythonShown) return;
    this.spans.showPython(show);
    if (this.overview !== this.spans) this.overview.showPython(show);
    if (this.selected >= 0 && !this.spans.shown.has(this.selected)) this.select(-1);
    this.tell("rows");
  }

  get pythonShown(): boolean {
    return this.spans.shown === this.spans.all;
  }

  setTab(tab: string): void {
    this.tab = tab;
    this.tell("tab");
  }

  setMarks(pinned: string[], notes: Note[]): void {
    this.pinned = pinned;
    this.notes = notes;
    this.tell("marks");
  }

  togglePin(line: string): void {
    const others = this.pinned.filter((name) => name !== line);
    this.setMarks(others.length < this.pinned.length ? others : [...this.pinned, line], this.notes);
  }

  // Replaces notes nearer than `near`; removes them if the text is empty.
  setNote(time: number, text: string, near: number): void {
    const others = this.notes.filter((note) => Math.abs(note.time - time) > near);
    this.setMarks(this.pinned, text.trim() ? [...others, { time, text: text.trim() }] : others);
  }

  setTheme(dark: boolean): void {
    document.documentElement.dataset["theme"] = dark ? "dark" : "light";
    this.theme = currentTheme();
    this.colors = this.makeColors();
    this.overviewColors =
      this.overview === this.spans
        ? this.colors
        : new SpanColors(this.overview, new Activities(this.overview), dark);
    this.tell("theme");
  }

  // A label of this text, whatever its kind.
  labelOf(name: string): number | undefined {
    this.labelNumbers ??= new Map(this.spans.labels.map((text, i) => [text, i]));
    return this.labelNumbers.get(name);
  }

  // Colour of a name in every view; empty if no span on the timeline has it.
  colorOf(name: string): string {
    const label = this.labelOf(name);
    return label === undefined ? "" : this.colors.ofLabel(label);
  }

  private labelNumbers: Map<string, number> | undefined;

  // Period that the panels describe: the selected one, or that of the page.
  get scope(): TimeRange {
    return this.range ?? { from: this.report.period.from, to: this.report.period.to };
  }

  // The time that all shares of the page refer to.
  get wall(): number {
    return Math.max(this.report.period.to - this.report.period.from, 1);
  }

  private showPeriod(): void {
    const { from, to } = this.report.period;
    const margin = (to - from) * 0.01;
    this.setView(from - margin, to + margin);
  }

  // Selects the start-up, which tables and findings exclude, and zooms to it.
  openStartUp(): void {
    this.selectRange({ from: 0, to: this.report.period.from });
    this.focus(0, this.report.period.from);
  }

  private wholeView(): TimeRange {
    const margin = this.duration * 0.01;
    return { from: -margin, to: this.duration + margin };
  }

  private makeColors(): SpanColors {
    return new SpanColors(this.spans, this.activities, this.theme.dark);
  }

  private tell(change: Change): void {
    for (const listener of this.listeners.get(change) ?? []) listener();
  }
}
