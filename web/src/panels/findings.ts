// Findings: what was found, where, the fix and its saving.
import type { Finding, FindingSection } from "../contract";
import { element } from "../dom";
import { formatCount, formatShare, formatTime } from "../format";
import type { State } from "../state";

export function findingsPanel(state: State): HTMLElement {
  const { findings } = state.report;
  return element(
    "div",
    { class: "findings" },
    element("p", { class: "sentence" }, summary(findings)),
    ...findings.found.map((finding) => findingCard(state, finding)),
    ...findings.notes.map((note) => element("p", { class: "sentence dim" }, note)),
    element("p", { class: "sentence dim" }, findings.lookedAt),
    uncheckedCard(findings),
  );
}

// The first lines of the panel, also without findings.
export function summary({ found, absent, unchecked }: FindingSection): string {
  const looked = found.length + absent;
  const rest = unchecked.length
    ? ` ${formatCount(unchecked.length)} more checks need data that was not recorded.`
    : "";
  if (!looked) return `No check could run.${rest}`;
  if (!found.length) return `No known problem: ${formatCount(looked)} checks ran.${rest}`;
  return (
    `${formatCount(found.length)} of ${formatCount(looked)} checks have findings, largest saving ` +
    `first. Savings do not add up: one fix can remove the saving of another.${rest}`
  );
}

export function savedText({ saved, savedShare, measured }: Finding): string {
  if (saved === null || savedShare === null) return "saving unknown";
  return `${measured ? "saves" : "saves about"} ${formatTime(saved)}  ${formatShare(savedShare)}`;
}

export function severityMark({ severity }: Finding): HTMLElement {
  return element("span", { class: `severity ${severity}` }, severity);
}

function findingCard(state: State, finding: Finding): HTMLElement {
  return element(
    "section",
    { class: `card finding ${finding.severity}`, aria: { label: finding.title } },
    element(
      "div",
      { class: "card-head" },
      severityMark(finding),
      element("h3", {}, finding.title),
      element("span", { class: "saved" }, savedText(finding)),
    ),
    element("p", { class: "sentence" }, finding.explanation),
    finding.advice &&
      element("p", { class: "sentence advice" }, element("b", {}, "What to do: "), finding.advice),
    places(finding),
    element("p", { class: "sentence dim" }, `Estimate: ${finding.savedBy}.`),
    buttons(state, finding),
  );
}

function places(finding: Finding): HTMLElement | false {
  if (!finding.places.length)
    return finding.placeNote !== "" && element("p", { class: "sentence dim" }, finding.placeNote);
  return element(
    "ul",
    { class: "places" },
    ...finding.places.map((place) =>
      element(
        "li",
        {},
        element("code", {}, place.text),
        place.function ? ` in ${place.function}` : "",
        place.module ? element("span", { class: "dim" }, ` ${place.module}`) : null,
        element("span", { class: "dim" }, `  ${formatCount(place.count)} × · ${formatTime(place.time)}`),
      ),
    ),
    finding.placeNote ? element("li", { class: "dim" }, finding.placeNote) : null,
  );
}

function buttons(state: State, finding: Finding): HTMLElement {
  let next = 0;
  const { spans } = finding;
  const button = element("button", { class: "button" }, label(0));
  button.addEventListener("click", () => {
    state.goTo(spans[next % spans.length], true);
    next = (next + 1) % spans.length;
    button.textContent = label(next);
  });
  function label(position: number): string {
    return spans.length > 1
      ? `Show ${formatCount(position + 1)} of ${formatCount(finding.count)} in the timeline`
      : "Show it in the timeline";
  }
  return element(
    "div",
    { class: "buttons" },
    spans.length ? button : null,
    finding.link
      ? element("a", { href: finding.link, target: "_blank", rel: "noreferrer" }, "Read more")
      : null,
  );
}

function uncheckedCard({ unchecked }: FindingSection): HTMLElement | null {
  if (!unchecked.length) return null;
  return element(
    "details",
    { class: "card unchecked" },
    element("summary", {}, `Checks without data (${formatCount(unchecked.length)})`),
    element(
      "dl",
      {},
      ...unchecked.flatMap(({ title, needs }) => [element("dt", {}, title), element("dd", {}, needs)]),
    ),
  );
}
