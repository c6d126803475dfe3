// The verdict, above its details.
import { element } from "../dom";

export function verdictCard(verdict: string[]): HTMLElement | null {
  const [first, ...others] = verdict;
  if (!first) return null;
  return element(
    "section",
    { class: "card verdict", aria: { label: "Verdict" } },
    element("h3", {}, first),
    ...others.map((line) => element("p", { class: "sentence" }, line)),
  );
}
