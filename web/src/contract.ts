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
  devices: DeviceSection | null; // if any device was active
  findings: FindingSection;
  verdict: string[]; // at most four lines; none without recorded times
  ranks: RankSection | null; // of a job of several processes
  differences: SentencesWithTables | null; // of two traces
  columns: PackedColumn[];
}

export interface PackedColumn {
  name: ColumnName;
  count: number;
  planes: number;
}

// start: since the span before on the same line, or since the start of the recording.
// inputs: row in SpanSection.inputs plus 1, 0 for none. Arrows are in order of their sources.
// merged: number of spans merged into this one, 0 for a single span; only with a window.
// rankTime, rankOwn: by rank and step, plus 1; 0 for none; only for jobs with ranks.
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
  costNs: number | null; // total overhead of recording
}

// Period of tables, findings and shares: the recording without start-up, if recognised.
export interface Period {
  about: string; // in words: steady state, 210 ms, 29 steps
  from: number;
  to: number; // all shares are of this period
  leftOut: string; // the start-up in words; empty for none
}

export interface SpanSection {
  lines: Line[];
  lineStarts: number[]; // spans of line i are lineStarts[i] to lineStarts[i + 1]
  labels: {
    text: string[];
    kind: number[];
    waiting: number[]; // labels of waits: never ranked as work
    unranked: number[]; // labels of steps and of the recorder: in no table
  };
  unfinished: number[]; // spans
  inputs: string[];
  moved: MovedSpans;
  window?: SpanWindow; // if these are not all spans of the recording
}

// Spans shorter than `least` are merged with their neighbours; 0: none are merged.
export interface SpanWindow {
  from: number;
  to: number;
  least: number;
  pixels: number; // width of a window
}

// Each instant of a thread belongs to the span that began last. For spans that do not nest: the end of their
// self time, or a parent that differs from the one on their line.
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
  allRows: number; // `rows` of these are on the page
  flopsCoverage?: number; // 0 to 1, if operations were counted
}

// Columns that are zero throughout are left out.
export interface OperatorColumns {
  name: string[];
  kind: number[];
  waits: boolean[]; // waits are not work
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
  name: string[]; // path: blocks.3.mlp.0
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
  text: string[]; // text of the line, if known
  starts: number[][]; // starts of the first calls from it
  library: boolean[];
  calls: number[];
  self: number[];
  total: number[];
  deviceTotal?: number[];
}

export interface StepSection {
  what: string; // definition of a step, unless the program marks steps
  number: number[];
  start: number[];
  duration: number[];
  busy: number[];
  deviceBusy: number[];
  events: number[];
  phases: string[];
  phaseTimes: number[][]; // step, phase
  causes: string[]; // causes of the main thread's time; they sum to the step
  causeMeanings: string[];
  causeTimes: number[][]; // step, cause
  labels: string[];
  labelTimes: number[][]; // step, label
  allSteps: number;
}

export interface RankSection {
  sentences: string[]; // the slow ranks, or that there are none; limits of the comparison
  names: string[];
  onTimeline: boolean[]; // of each
  steps: number[];
  allSteps: number; // these are on the page
  what: string; // definition of a step, unless the programs mark steps
  causes: string[];
  causeMeanings: string[];
  causeTimes: number[][]; // rank, cause
  together: SentencesWithTables;
}

export interface SentencesWithTables {
  sentences: string[];
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
  byCategory: MemoryParts | null; // null if categories are unknown
  byPhase: MemoryParts; // by allocating phase
  uncategorised: string; // why categories are unknown
  peakBytes: number;
  peakTime: number;
  beforeBytes: number; // of the peak, allocated before the recording
  groups: Record<MemoryGrouping, MemoryGroup[]>; // of the peak; empty if not known
  stacks: MemoryGroup[]; // of the peak, by allocating functions: outermost first, separated by ";"
  blocks: MemoryBlock[]; // the largest in use at the peak
}

// "end": for a snapshot, lines of memory in use at its end.
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
  wall: number; // shares are of this
  devices: DeviceUse[]; // none for several processes together
  modules: TextTable | null;
  notes: string[]; // missing results, and why
}

export interface DeviceUse {
  name: string;
  work: number; // number of activities
  busy: number;
  parts: DevicePart[]; // busy time by kind; kinds may overlap
  idle: DevicePart[]; // by cause; they sum to the idle time
  gaps: number;
  longestGap: number;
  sentences: string[];
  streams: TextTable;
}

export interface DevicePart {
  name: string;
  time: number;
  detail: string;
}

export interface FindingSection {
  found: Finding[];
  absent: number; // number of checks without a finding
  notes: string[]; // noise, and time that no finding explains
  lookedAt: string; // shares are of this
  unchecked: { title: string; needs: string }[]; // checks without recorded data
}

export interface Finding {
  id: string;
  title: string;
  explanation: string;
  advice: string;
  severity: "high" | "medium" | "low";
  time: number;
  timeShare: number; // of the recording, 0 to 1
  saved: number | null; // saving of the fix
  savedShare: number | null;
  savedBy: string; // derivation of the saving
  measured: boolean; // by a benchmark, not estimated from the recording
  count: number;
  spans: number[]; // the first of them
  places: FindingPlace[];
  placeNote: string; // what to record to see lines
  link: string;
}

export interface FindingPlace {
  text: string; // file:line, or the module if the line is unknown
  function: string;
  module: string;
  count: number;
  time: number;
}
