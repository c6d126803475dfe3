// What differs between two traces, as opscope diff prints it.
import type { SaidWithTables } from "../contract";
import { element } from "../dom";
import { textTable } from "../view/text_table";

export function differencesPanel({ said, tables }: SaidWithTables): HTMLElement {
  return element(
    "div",
    { class: "differences" },
    ...said.map((line) => element("p", { class: "sentence" }, line)),
    ...tables.map(textTable),
  );
}
