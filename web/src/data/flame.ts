// Calls with the same stack merged: the tree behind the flame graph.
import type { TimeRange } from "./selection";
import { forEachTouching, overlaps } from "./selection";
import type { Spans } from "./spans";

export interface FlameNode {
  label: number; // -1 for the root and for lines
  line: number; // -1 except for nodes of lines
  depth: number;
  value: number; // nanoseconds
  calls: number;
  parent: FlameNode | null;
  children: FlameNode[]; // most time first
}

// torch's Python code between the program's call and the computing operator.
const INTERNALS = /^(.*\/)?torch\/.*\.py(\(|:)/;

export function isInternal(label: string): boolean {
  return INTERNALS.test(label);
}

// If internals are hidden, their callees become children of their caller.
export function buildFlame(spans: Spans, range: TimeRange, internals = true): FlameNode {
  const isHidden = Uint8Array.from(spans.labels, (label) => (!internals && isInternal(label) ? 1 : 0));
  const root = makeNode(-1, -1, 0, null);
  const nodeOf: FlameNode[] = new Array(spans.count);
  const byStack = new Map<FlameNode, Map<number, FlameNode>>();
  const lineNodes = spans.lines.map((_, line) => makeNode(-1, line, 1, root));
  forEachTouching(spans, range, (span, inside, line) => {
    // Spans that overlap others of their thread would count time twice.
    if (overlaps(spans.lines[line])) return;
    const parentSpan = spans.parent[span];
    const above = parentSpan >= 0 ? nodeOf[parentSpan] : lineNodes[spans.lineOf(span)];
    if (isHidden[spans.label[span]]) {
      nodeOf[span] = above;
      return;
    }
    let siblings = byStack.get(above);
    if (!siblings) byStack.set(above, (siblings = new Map()));
    const label = spans.merged[spans.counted[span]];
    let node = siblings.get(label);
    if (!node) {
      node = makeNode(label, -1, above.depth + 1, above);
      siblings.set(label, node);
      above.children.push(node);
    }
    node.value += inside;
    node.calls++;
    nodeOf[span] = node;
  });
  for (const siblings of byStack.values()) {
    for (const node of siblings.values()) node.children.sort((a, b) => b.value - a.value);
  }
  for (const node of lineNodes) finishAbove(node);
  root.children = lineNodes.filter((node) => node.children.length > 0);
  finishAbove(root);
  return root;
}

export function selfValue(node: FlameNode): number {
  return node.children.reduce((own, child) => own - child.value, node.value);
}

export function pathOf(node: FlameNode): FlameNode[] {
  const path: FlameNode[] = [];
  for (let above: FlameNode | null = node; above; above = above.parent) path.unshift(above);
  return path;
}

function makeNode(label: number, line: number, depth: number, parent: FlameNode | null): FlameNode {
  return { label, line, depth, value: 0, calls: 0, parent, children: [] };
}

function finishAbove(node: FlameNode): void {
  node.value = node.children.reduce((sum, child) => sum + child.value, 0);
  node.calls = node.children.reduce((sum, child) => sum + child.calls, 0);
  node.children.sort((a, b) => b.value - a.value);
}
