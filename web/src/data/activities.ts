// Activity of a span's time: one of a few, with one colour in every view.
import { Kind } from "../contract";
import { isPython, type Spans } from "./spans";

export const ACTIVITIES = [
  "forward",
  "backward",
  "optimizer",
  "data loading",
  "Python",
  "communication",
  "memory",
  "waiting",
  "garbage collection",
  "other",
] as const;
export type Activity = (typeof ACTIVITIES)[number];

const NUMBERS = new Map<Activity, number>(ACTIVITIES.map((name, i) => [name, i]));
const UNKNOWN = -1;

// Activities by name. Operators inside one of the first four belong to it; the others apply to the span itself.
const AROUND: [RegExp, Activity][] = [
  [/^enumerate\(DataLoader\)/, "data loading"],
  [/^Optimizer\.(step|zero_grad)/, "optimizer"],
  [/^autograd::engine::|^torch::autograd::|Backward\d*$/, "backward"],
  [/^(_?c10d|gloo:|mpi:|nccl|ucc:|record_param_comms)/i, "communication"],
];
const OF_ITSELF: [RegExp, Activity][] = [
  [
    /^aten::(_to_copy|to|copy_|clone|contiguous|empty\w*|zeros?(_like)?)$|^cuda(Malloc|Free|Memcpy)/,
    "memory",
  ],
  [/^cuda\w*Synchronize/, "waiting"],
];

export class Activities {
  readonly ofSpan: Uint8Array;
  readonly ofLabel: Uint8Array; // the activity with most self time of its spans
  readonly present: Activity[];

  constructor(spans: Spans) {
    const around = spans.labels.map((name, i) =>
      isPython(spans.kinds[i]) ? UNKNOWN : matching(AROUND, name),
    );
    const own = spans.labels.map((name, i) => ownActivity(name, spans.kinds[i], spans.waiting[i] === 1));
    const context = new Int8Array(spans.count).fill(UNKNOWN);
    this.ofSpan = new Uint8Array(spans.count);
    for (let span = 0; span < spans.count; span++) {
      const label = spans.label[span];
      const parent = spans.parent[span];
      context[span] = around[label] !== UNKNOWN ? around[label] : parent >= 0 ? context[parent] : UNKNOWN;
    }
    this.followLaunches(spans, context);
    const time = new Float64Array(spans.labels.length * ACTIVITIES.length);
    const total = new Float64Array(ACTIVITIES.length);
    for (let span = 0; span < spans.count; span++) {
      const label = spans.label[span];
      const inherited = context[span] !== UNKNOWN ? context[span] : NUMBERS.get("forward")!;
      const activity = own[label] !== UNKNOWN && around[label] === UNKNOWN ? own[label] : inherited;
      this.ofSpan[span] = activity;
      const spent = Math.max(spans.selfTime(span), 0) + 1; // spans without time count too
      time[label * ACTIVITIES.length + activity] += spent;
      total[activity] += spent;
    }
    this.ofLabel = Uint8Array.from(spans.labels, (_, label) =>
      largest(time.subarray(label * ACTIVITIES.length, (label + 1) * ACTIVITIES.length)),
    );
    this.present = ACTIVITIES.filter((_, i) => total[i] > 0);
  }

  // Device work has the activity of its launch.
  private followLaunches(spans: Spans, context: Int8Array): void {
    spans.forEachArrow((source, target) => {
      if (spans.kind(target) >= Kind.kernel && context[target] === UNKNOWN) context[target] = context[source];
    });
  }
}

function ownActivity(name: string, kind: number, waits: boolean): number {
  if (kind === Kind.gcPause) return NUMBERS.get("garbage collection")!;
  if (kind === Kind.annotation || kind === Kind.deviceAnnotation || kind === Kind.taskRun)
    return NUMBERS.get("other")!;
  if (waits || kind === Kind.synchronisation) return NUMBERS.get("waiting")!;
  if (isPython(kind)) return NUMBERS.get("Python")!;
  if (kind === Kind.copy || kind === Kind.set) return NUMBERS.get("memory")!;
  return matching(OF_ITSELF, name);
}

function matching(rules: [RegExp, Activity][], name: string): number {
  const found = rules.find(([pattern]) => pattern.test(name));
  return found ? NUMBERS.get(found[1])! : UNKNOWN;
}

function largest(values: Float64Array): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}
