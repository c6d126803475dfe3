// A small table of text, as the command line prints it.
import type { TextTable } from "../contract";
import { element } from "../dom";

export function textTable({ heading, rows }: TextTable): HTMLElement {
  const cells = (tag: "th" | "td", texts: string[]) => texts.map((text) => element(tag, {}, text));
  return element(
    "table",
    { class: "text-table" },
    element("thead", {}, element("tr", {}, ...cells("th", heading))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row)))),
  );
}
