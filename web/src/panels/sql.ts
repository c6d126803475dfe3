// A query and its rows; a click on a row shows its time on the timeline.
import type { Rows } from "../data/source";
import { element, replace } from "../dom";
import type { State } from "../state";

const FIRST =
  "select name, count(*) as calls, round(sum(duration_us)) as total_us\nfrom named_events group by name order by total_us desc limit 20";
const WIDTH = 0.002; // share of the recording shown around a picked row

export function sqlPanel(state: State): HTMLElement {
  const field = element("textarea", {
    class: "sql-query",
    rows: 4,
    spellcheck: false,
    value: state.query ?? FIRST,
    aria: { label: "SQL query" },
    on: {
      input: () => (state.query = field.value),
      keydown: (event) => {
        event.stopPropagation();
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void run();
      },
    },
  });
  const answer = element("div", { class: "sql-answer", aria: { live: "polite" } });
  async function run(): Promise<void> {
    replace(answer, element("p", { class: "sentence dim" }, "Running…"));
    try {
      show(await state.source.sql(field.value));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      replace(answer, element("p", { class: "failure" }, reason));
    }
  }
  function show(found: Rows): void {
    const moment = found.columns.findIndex((name) => name === "start_ns" || name === "start_us");
    const cells = (row: string[]) => row.map((text) => element("td", {}, text));
    const lines = found.rows.map((row) => {
      const time = moment < 0 ? null : state.timeOf(found.columns[moment], row[moment]);
      if (time === null) return element("tr", {}, ...cells(row));
      const go = () => state.focus(time, time + state.duration * WIDTH);
      return element(
        "tr",
        { class: "link", title: "Show on the timeline", on: { click: go } },
        ...cells(row),
      );
    });
    replace(
      answer,
      element(
        "p",
        { class: "sentence dim" },
        `${found.rows.length} rows${found.isMore ? ", the first of more" : ""}` +
          (moment < 0 ? "; select start_us to go from a row to the timeline" : ""),
      ),
      element(
        "table",
        { class: "text-table" },
        element("thead", {}, element("tr", {}, ...found.columns.map((name) => element("th", {}, name)))),
        element("tbody", {}, ...lines),
      ),
    );
  }
  return element(
    "div",
    { class: "sql" },
    field,
    element(
      "div",
      { class: "sql-run" },
      element("button", { class: "button", on: { click: () => void run() } }, "Run (Ctrl+Enter)"),
      element(
        "span",
        { class: "dim" },
        "Tables: events, named_events, names, threads, tensors, allocations, gpu …",
      ),
    ),
    answer,
  );
}
