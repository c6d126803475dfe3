// The data of a page, as src/opscope/report/payload.py writes it.
//
// Times are nanoseconds since the start of the recording, sizes are bytes, indices are rows. Columns
// of spans are packed separately: see data/unpack.ts. -1 means "none".

export interface Report {
  version: 1;
  title: string;
  run: Run;
  period: Period;
  spans: SpanSection;
  operators: TableSection<OperatorColumns>;
  operatorsByShape: TableSection<OperatorColumns> | null;
  modules: TableSection<ModuleColumns> | null;
  sources: TableSection<SourceColumns> | null;
  steps: StepSection | null;
  memory: MemoryDevice[];
  devices: DeviceSection | null; // where any did anything
  findings: FindingSection;
  verdict: string[]; // at most four lines; none where no times were recorded
  ranks: RankSection | null; // of a job of several processes
  differences: SaidWithTables | null; // of two traces
  columns: PackedColumn[];
}

export interface PackedColumn {
  name: ColumnName;
  count: number;
  planes: number;
}

// start: since the span before on the same line, or since the start of the recording.
// inputs: row in SpanSection.inputs plus 1, 0 for none. Arrows are in order of their sources.
// merged: how many a span stands for, 0 for one that stands for itself; only where there is a window.
// rankTime, rankOwn: by rank and step, plus 1, 0 where there is none; only where there are ranks.
export type ColumnName =
  | "start"
  | "duration"
  | "label"
  | "inputs"
  | "arrowSource"
  | "arrowTarget"
  | "merged"
  | "rankTime"
  | "rankOwn";

export interface Run {
  program: string;
  startedNs: string; // Unix time
  duration: number;
  machine: [string, string][];
  options: [string, boolean | string][];
  user: [string, string][];
  counts: Record<"events" | "threads" | "gpu" | "allocations" | "tensors" | "python_calls", number>;
  ledger: { source: string; what: string; value: number }[];
  dropped: number;
  unfinished: number;
  costNs: number | null; // what recording cost in all
}

// What tables, findings and shares are of: the recording without its start-up, where one can be told.
export interface Period {
  about: string; // in words: steady state, 210 ms, 29 steps
  from: number;
  to: number; // its length is what every share is of
  leftOut: string; // the start-up in words; empty for none
}

export interface SpanSection {
  lines: Line[];
  lineStarts: number[]; // spans of line i are lineStarts[i] to lineStarts[i + 1]
  labels: {
    text: string[];
    kind: number[];
    waiting: number[]; // labels of what waits: never ranked as work
    unranked: number[]; // labels of steps and of what recording needs: of no table
  };
  unfinished: number[]; // spans
  inputs: string[];
  moved: MovedSpans;
  window?: SpanWindow; // where these are not all spans of the recording
}

// Spans shorter than `least` are merged with their neighbours; 0 where none are.
export interface SpanWindow {
  from: number;
  to: number;
  least: number;
  pixels: number; // that a window is resolved into
}

// Each instant of a thread belongs to the span that began last. Where its spans do not nest, these have time
// of their own until another moment than their end, or are in another span than on their line.
export interface MovedSpans {
  span: number[];
  until: number[];
  around: number[]; // spans, -1 for none
}

export interface Line {
  name: string;
  number: number;
  device: number; // -1 for a thread
  lane: number; // 0, or 1 and up for spans that would overlap those of lane 0
  home: number; // line of lane 0 among those of the same table
}

// Kinds of labels: columns/schema.py's EventKind, then the kinds of `gpu`.
export const Kind = {
  operator: 0,
  annotation: 1,
  pythonCall: 2,
  cCall: 3,
  moduleCall: 4,
  optimizerCall: 5,
  gcPause: 6,
  runtimeCall: 7,
  taskRun: 8,
  kernel: 9,
  copy: 10,
  set: 11,
  synchronisation: 12,
  deviceAnnotation: 13,
} as const;

export interface TableSection<C> {
  columns: C;
  rows: number;
  allRows: number; // of which `rows` are on the page
  flopsCoverage?: number; // 0 to 1, where operations were counted
}

// Columns that are zero throughout are left out.
export interface OperatorColumns {
  name: string[];
  kind: number[];
  waits: boolean[]; // waiting is no work
  calls: number[];
  self?: number[];
  total?: number[];
  deviceSelf?: number[];
  deviceTotal?: number[];
  memorySelf?: number[];
  deviceMemorySelf?: number[];
  flops?: number[];
  shapes?: string[];
}

export interface ModuleColumns {
  name: string[]; // as the program calls it: blocks.3.mlp.0
  class: string[];
  label: string[]; // of its calls on the timeline
  calls: number[];
  self: number[];
  total: number[];
  backward: number[];
  deviceTotal?: number[];
}

export interface SourceColumns {
  file: string[];
  line: number[];
  function: string[];
  text: string[]; // what the line says, where that is known
  starts: number[][]; // when the first calls from it started
  library: boolean[];
  calls: number[];
  self: number[];
  total: number[];
  deviceTotal?: number[];
}

export interface StepSection {
  what: string; // what a step is, where the program does not mark them; else empty
  number: number[];
  start: number[];
  duration: number[];
  busy: number[];
  deviceBusy: number[];
  events: number[];
  phases: string[];
  phaseTimes: number[][]; // step, phase
  causes: string[]; // why time of the main thread passed; together the whole step
  causeMeanings: string[];
  causeTimes: number[][]; // step, cause
  labels: string[];
  labelTimes: number[][]; // step, label
  allSteps: number;
}

export interface RankSection {
  said: string[]; // who is slow, or that nobody is, and what could not be told
  names: string[];
  onTimeline: boolean[]; // of each
  steps: number[];
  allSteps: number; // of which these are on the page
  what: string; // what a step is, where the programs do not mark them; else empty
  causes: string[];
  causeMeanings: string[];
  causeTimes: number[][]; // rank, cause
  together: SaidWithTables;
}

export interface SaidWithTables {
  said: string[];
  tables: TextTable[];
}

// The first column has names, the others numbers; all as text.
export interface TextTable {
  heading: string[];
  rows: string[][];
}

export interface MemoryDevice {
  device: string;
  time: number[];
  total: number[];
  byCategory: MemoryParts | null; // what it was for; null where that is not known
  byPhase: MemoryParts; // the part of a step that allocated it
  uncategorised: string; // why byCategory is not known
  peakBytes: number;
  peakTime: number;
  beforeBytes: number; // of the peak, allocated before the recording
  groups: Record<MemoryGrouping, MemoryGroup[]>; // of the peak; empty if not known
  stacks: MemoryGroup[]; // likewise, by the functions that allocated, outermost first, with ";" between
  blocks: MemoryBlock[]; // the largest in use at the peak
}

// "end": of a snapshot, lines of what was in use at its end.
export type MemoryGrouping = "category" | "operator" | "module" | "function" | "phase" | "line" | "end";

export interface MemoryParts {
  names: string[];
  bytes: number[][]; // part, sample
}

export interface MemoryGroup {
  name: string;
  bytes: number;
  blocks: number;
  before: number; // of bytes, allocated before the recording
}

export interface MemoryBlock {
  bytes: number;
  time: number; // -1 before the recording
  until: number; // -1 not in the recording
  span: number;
  name: string; // of the outermost operator that allocated it
  category: string;
  module: string;
}

export interface DeviceSection {
  wall: number; // what shares are of
  devices: DeviceUse[]; // none where they are looked at one process at a time
  modules: TextTable | null;
  notes: string[]; // what cannot be said, and why
}

export interface DeviceUse {
  name: string;
  work: number; // pieces of it
  busy: number;
  parts: DevicePart[]; // what it was busy with; they may go on at once
  idle: DevicePart[]; // by cause; together all that it was not busy
  gaps: number;
  longestGap: number;
  said: string[];
  streams: TextTable;
}

export interface DevicePart {
  name: string;
  time: number;
  detail: string;
}

export interface FindingSection {
  found: Finding[];
  absent: number; // patterns that were looked for and are not there
  notes: string[]; // noise, and what no finding explains
  lookedAt: string; // what shares are of
  unchecked: { title: string; needs: string }[]; // that the recording cannot show
}

export interface Finding {
  id: string;
  title: string;
  explanation: string;
  advice: string;
  severity: "high" | "medium" | "low";
  time: number;
  timeShare: number; // of the recording, 0 to 1
  saved: number | null; // what the fix would save
  savedShare: number | null;
  savedBy: string; // how that was arrived at
  measured: boolean; // by running it, not derived from the recording
  count: number;
  spans: number[]; // the first of them
  places: FindingPlace[];
  placeNote: string; // what to record to see lines
  link: string;
}

export interface FindingPlace {
  text: string; // file:line, or the module where no line is known
  function: string;
  module: string;
  count: number;
  time: number;
}
