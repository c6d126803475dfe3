// What differs between two traces, as opscope diff prints it.
import type { SentencesWithTables } from "../contract";
import { element } from "../dom";
import { textTable } from "../view/text_table";

export function differencesPanel({ sentences, tables }: SentencesWithTables): HTMLElement {
  return element(
    "div",
    { class: "differences" },
    ...sentences.map((line) => element("p", { class: "sentence" }, line)),
    ...tables.map(textTable),
  );
}
