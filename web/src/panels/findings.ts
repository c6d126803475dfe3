// What the analyses found worth saying.
import type { Finding } from "../contract";
import { element } from "../dom";
import { formatCount, formatTime } from "../format";
import type { State } from "../state";

export function findingsPanel(state: State): HTMLElement {
  return element(
    "div",
    { class: "findings" },
    ...state.report.findings.map((finding) => findingCard(state, finding)),
  );
}

function findingCard(state: State, finding: Finding): HTMLElement {
  let next = 0;
  const visit = () => state.goTo(finding.spans[next++ % finding.spans.length]);
  const amount = [
    finding.time !== null && formatTime(finding.time),
    finding.count > 0 && `${formatCount(finding.count)} places`,
  ]
    .filter(Boolean)
    .join(" · ");
  return element(
    "div",
    { class: "card finding" },
    element(
      "div",
      { class: "card-head" },
      element("span", { class: `severity ${finding.severity}` }, finding.severity),
      element("h3", {}, finding.title),
      element("span", { class: "card-subtitle" }, amount),
    ),
    element("p", { class: "sentence" }, finding.explanation),
    ...finding.sources.map((source) => element("code", {}, source)),
    element(
      "div",
      { class: "buttons" },
      finding.spans.length
        ? element(
            "button",
            { class: "button", on: { click: visit } },
            finding.spans.length > 1 ? "Show the next" : "Show it",
          )
        : null,
      finding.link
        ? element("a", { href: finding.link, target: "_blank", rel: "noreferrer" }, "Read more")
        : null,
    ),
  );
}
