// Facts about the recording: program, options, machine, losses.
import { element } from "../dom";
import { formatCount, formatTime } from "../format";
import type { State } from "../state";

export function runPanel(state: State): HTMLElement {
  const { run } = state.report;
  const started = Number(BigInt(run.startedNs) / 1_000_000n);
  const facts: [string, string][] = [
    ["program", run.program || "unknown"],
    ["recorded", started > 0 ? new Date(started).toLocaleString() : "unknown"],
    ["duration", formatTime(run.duration)],
    ["shares refer to", sharesAreOf(state)],
    ...run.machine,
  ];
  const counts = Object.entries(run.counts).map(
    ([name, count]) => [name.replace("_", " "), formatCount(count)] as [string, string],
  );
  const options = run.options.map(
    ([name, value]) => [name, value === true ? "on" : value === false ? "off" : value] as [string, string],
  );
  const ledger = run.ledger.map(
    ({ source, what, value }) => [`${source}: ${what}`, ledgerValue(what, value)] as [string, string],
  );
  return element(
    "div",
    { class: "cards run" },
    section("Run", facts),
    section("Recorded with", options, "Not stored in this recording."),
    section("Rows", counts),
    section(
      "Ledger",
      ledger,
      "This file does not say what was requested, recorded and dropped.",
      (name, value) => /dropped/.test(name) && value !== "0",
    ),
    run.user.length ? section("Added by the program", run.user) : null,
  );
}

// Recordings begin before their first span and end after their last.
function sharesAreOf({ wall, report }: State): string {
  const { about, leftOut } = report.period;
  const rest = report.run.duration - wall;
  const idle =
    rest > 0 && !leftOut ? `; ${formatTime(rest)} are before the first or after the last span` : "";
  return `${formatTime(wall)}: ${about}${leftOut ? `, without ${leftOut}` : ""}${idle}`;
}

function section(
  title: string,
  facts: [string, string][],
  empty = "",
  isBad = (_name: string, _value: string) => false,
): HTMLElement {
  return element(
    "div",
    { class: "card" },
    element("h3", {}, title),
    facts.length
      ? element(
          "dl",
          {},
          ...facts.flatMap(([name, value]) => [
            element("dt", {}, name),
            element("dd", { class: isBad(name, value) ? "bad" : "" }, value),
          ]),
        )
      : element("p", { class: "sentence dim" }, empty),
  );
}

function ledgerValue(what: string, value: number): string {
  return what.startsWith("cost_ns") ? `${value.toFixed(1)} ns` : formatCount(value);
}
