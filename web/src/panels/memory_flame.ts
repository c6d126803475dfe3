// Flame graph of the memory in use at a peak, by the functions that allocated it, outermost on top.
import type { MemoryDevice, MemoryGroup } from "../contract";
import { element, visible } from "../dom";
import { formatBytes, formatShare } from "../format";
import type { State } from "../state";

const LEAST = 0.002; // of the shown total; narrower boxes are invisible

export interface StackNode {
  name: string;
  bytes: number;
  children: Map<string, StackNode>;
}

export function stackTree(stacks: MemoryGroup[]): StackNode {
  const root: StackNode = { name: "all", bytes: 0, children: new Map() };
  for (const { name, bytes } of stacks) {
    let node = root;
    node.bytes += bytes;
    for (const frame of name.split(";")) {
      let child = node.children.get(frame);
      if (!child) node.children.set(frame, (child = { name: frame, bytes: 0, children: new Map() }));
      child.bytes += bytes;
      node = child;
    }
  }
  return root;
}

export function stackFlame(state: State, device: MemoryDevice): HTMLElement {
  const host = element("div", { class: "memory-flame" });
  const root = stackTree(device.stacks);
  const show = (node: StackNode) => host.replaceChildren(draw(node, node.bytes));
  let shown = root;
  const pick = (node: StackNode) => show((shown = node === shown ? root : node));

  function draw(node: StackNode, all: number): HTMLElement {
    const label = `${formatBytes(node.bytes)} (${formatShare(node.bytes / device.peakBytes)})`;
    const bar = element(
      "button",
      {
        class: "flame-bar",
        title: `${visible(node.name)}\n${label}`,
        on: { click: () => pick(node) },
      },
      node === root ? label : visible(node.name),
    );
    const color = state.colorOf(node.name);
    if (color) Object.assign(bar.style, { background: color, color: state.theme.spanText });
    const large = [...node.children.values()]
      .filter(({ bytes }) => bytes >= LEAST * all)
      .sort((a, b) => b.bytes - a.bytes);
    const below = large.map((child) => {
      const column = draw(child, all);
      column.style.width = `${(child.bytes / Math.max(node.bytes, 1)) * 100}%`;
      return column;
    });
    return element("div", { class: "flame-column" }, bar, element("div", { class: "flame-row" }, ...below));
  }

  show(root);
  return host;
}
