// Flame graph of the selection or the whole period: calls with the same stack merged, root on top.
import { buildFlame, isInternal, pathOf, selfValue, type FlameNode } from "../data/flame";
import { element, fitCanvas, replace, visible } from "../dom";
import { formatCount, formatShare, formatTime } from "../format";
import type { State } from "../state";
import { lineName } from "../view/lines";
import { Tooltip } from "../view/tooltip";
import { toggle } from "./tables";

const ROW_HEIGHT = 20;

export function flamePanel(state: State, tooltip: Tooltip): HTMLElement {
  return new FlameGraph(state, tooltip).root;
}

class FlameGraph {
  readonly root = element("div", { class: "flame" });
  private readonly canvas = element("canvas");
  private readonly scroller = element("div", { class: "flame-scroller" }, this.canvas);
  private readonly crumbs = element("div", { class: "crumbs" });
  private tree!: FlameNode;
  private focus!: FlameNode;
  private readonly internalsSwitch: HTMLElement | null;
  private rects: { node: FlameNode; x: number; y: number; width: number }[] = [];
  private hovered: FlameNode | null = null;

  constructor(
    private readonly state: State,
    private readonly tooltip: Tooltip,
  ) {
    const hasInternals = state.spans.labels.some(isInternal);
    this.internalsSwitch = hasInternals
      ? toggle("torch's internals", false, (shown) => {
          this.build(shown);
          this.draw();
        })
      : null;
    this.build(false);
    this.root.append(this.crumbs, this.scroller);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  private build(internals: boolean): void {
    this.tree = buildFlame(this.state.spans, this.state.scope, internals);
    this.focus = this.tree.children.length === 1 ? this.tree.children[0] : this.tree;
  }

  private draw(): void {
    const width = this.scroller.clientWidth;
    if (!width) return;
    this.layOut(width);
    const height = Math.max(ROW_HEIGHT, ...this.rects.map((rect) => rect.y + ROW_HEIGHT));
    const context = fitCanvas(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    context.font = '11px system-ui, -apple-system, "Segoe UI", sans-serif';
    context.textBaseline = "middle";
    for (const rect of this.rects) this.drawRect(context, rect);
    this.showCrumbs();
  }

  private drawRect(context: CanvasRenderingContext2D, rect: (typeof this.rects)[number]): void {
    const { state } = this;
    const { node, x, y, width } = rect;
    const muted = state.search !== null && (node.label < 0 || !state.search.matches[node.label]);
    context.fillStyle = muted
      ? state.theme.muted
      : node.label < 0
        ? state.theme.line
        : state.colors.ofLabel(node.label);
    context.fillRect(x, y, Math.max(width - 0.5, 0.5), ROW_HEIGHT - 1);
    if (node === this.hovered) {
      context.strokeStyle = state.theme.text;
      context.strokeRect(x + 0.5, y + 0.5, width - 1, ROW_HEIGHT - 2);
    }
    if (width < 24) return;
    context.fillStyle = muted || node.label < 0 ? state.theme.text : state.theme.spanText;
    const text = visible(this.name(node)).slice(0, 200);
    const letters = Math.floor((width - 8) / 6);
    context.fillText(
      text.length > letters ? `${text.slice(0, Math.max(letters - 1, 1))}…` : text,
      x + 4,
      y + ROW_HEIGHT / 2,
    );
  }

  // Ancestors of the focus across the whole width, then its subtree to scale.
  private layOut(width: number): void {
    this.rects = [];
    const path = pathOf(this.focus).slice(this.tree.children.length === 1 ? 1 : 0);
    path.forEach((node, i) => this.rects.push({ node, x: 0, y: i * ROW_HEIGHT, width }));
    const scale = width / Math.max(this.focus.value, 1);
    const pending = [{ node: this.focus, x: 0, y: path.length * ROW_HEIGHT }];
    while (pending.length) {
      const { node, x, y } = pending.pop()!;
      let left = x;
      for (const child of node.children) {
        const childWidth = child.value * scale;
        if (childWidth < 0.4) break; // the rest is narrower still
        this.rects.push({ node: child, x: left, y, width: childWidth });
        pending.push({ node: child, x: left, y: y + ROW_HEIGHT });
        left += childWidth;
      }
    }
  }

  private showCrumbs(): void {
    const { range, report, wall } = this.state;
    const scope = range
      ? `the selected ${formatTime(range.to - range.from)}`
      : `${formatTime(wall)} (${report.period.about})`;
    const more = this.focus.parent && this.focus !== this.tree.children[0];
    replace(
      this.crumbs,
      element(
        "span",
        {},
        `${formatTime(this.focus.value)} in ${this.name(this.focus)}, of ${scope}${this.several()}`,
      ),
      more
        ? element("button", { class: "button", on: { click: () => this.zoomTo(this.tree) } }, "Show all")
        : null,
      this.internalsSwitch,
    );
  }

  // Explains that the time of all threads can exceed the wall time.
  private several(): string {
    const threads = this.focus === this.tree ? this.tree.children.length : 1;
    return threads > 1 ? `; ${formatCount(threads)} threads at the same time` : "";
  }

  private name(node: FlameNode): string {
    const { spans } = this.state;
    if (node.label >= 0) return spans.mergedName(node.label);
    return node.line >= 0 ? lineName(spans.lines[node.line]) : "all threads";
  }

  private at(event: MouseEvent): FlameNode | null {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const found = this.rects.find(
      (r) => y >= r.y && y < r.y + ROW_HEIGHT && x >= r.x && x < r.x + Math.max(r.width, 1),
    );
    return found?.node ?? null;
  }

  private hover(event: MouseEvent): void {
    const node = this.at(event);
    if (node !== this.hovered) {
      this.hovered = node;
      this.draw();
    }
    if (!node) return this.tooltip.hide();
    const { from, to } = this.state.scope;
    const share = formatShare(node.value / Math.max(to - from, 1));
    const own = formatTime(selfValue(node));
    const lines = [`${formatTime(node.value)} (${share}), self ${own}`, `${formatCount(node.calls)} spans`];
    this.tooltip.show(event.clientX, event.clientY, this.name(node), lines);
  }

  private leave(): void {
    this.hovered = null;
    this.tooltip.hide();
    this.draw();
  }

  private click(event: MouseEvent): void {
    const node = this.at(event);
    if (node) this.zoomTo(node === this.focus && node.parent ? node.parent : node);
  }

  private zoomTo(node: FlameNode): void {
    this.focus = node === this.tree && this.tree.children.length === 1 ? this.tree.children[0] : node;
    this.draw();
  }
}
