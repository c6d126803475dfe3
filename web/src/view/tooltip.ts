// The small box beside the pointer.
import { element, replace } from "../dom";

export class Tooltip {
  private readonly box = element("div", { class: "tooltip", role: "tooltip", hidden: true });

  constructor() {
    document.body.append(this.box);
  }

  show(x: number, y: number, title: string, lines: string[]): void {
    replace(
      this.box,
      element("div", { class: "tooltip-title" }, title.slice(0, 300)),
      ...lines.filter(Boolean).map((line) => element("div", {}, line.slice(0, 300))),
    );
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = x + 14 + width > innerWidth ? x - width - 10 : x + 14;
    const top = y + 16 + height > innerHeight ? y - height - 10 : y + 16;
    this.box.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  hide(): void {
    this.box.hidden = true;
  }
}
