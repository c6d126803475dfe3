// Buttons of which one is chosen.
import { element } from "../dom";

export interface Choice {
  text: string;
  choose: () => void;
}

// Chooses the first at once.
export function segments(label: string, choices: Choice[]): HTMLElement {
  const buttons = choices.map(({ text }, i) =>
    element("button", { class: "segment", on: { click: () => choose(i) } }, text),
  );
  function choose(chosen: number): void {
    buttons.forEach((button, i) => {
      button.classList.toggle("on", i === chosen);
      button.setAttribute("aria-pressed", String(i === chosen));
    });
    choices[chosen].choose();
  }
  if (choices.length) choose(0);
  return element("div", { class: "segments", role: "group", aria: { label } }, ...buttons);
}
