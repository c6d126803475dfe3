// Keys and gestures, on a sheet over the page.
import { isEmbedded } from "./address";
import { element } from "./dom";

const NOTE_KEY = "M";
const KEYS: [string, string][] = [
  ["W S  or  + −", "zoom in, out"],
  ["A D", "move left, right"],
  ["← → ↑ ↓", "previous, next, outer, inner span; without a selection: move"],
  ["drag", "select a time range"],
  ["Shift + drag", "move"],
  ["Ctrl + wheel, pinch", "zoom at the pointer"],
  ["double click, Enter", "zoom to the span or the selection"],
  ["0", "show the whole recording"],
  ["/", "search; /expression/ for a regular expression"],
  ["N   Shift + N", "next, previous match"],
  ["1 to 9", "panels"],
  ["P", "show or hide calls of Python functions in the timeline"],
  [NOTE_KEY, "note at the pointer; without a text it goes. Notes and pinned lines are in the address"],
  ["T", "light or dark"],
  ["Esc", "clear selection and search"],
];

export class Help {
  private readonly dialog = element(
    "dialog",
    { class: "help" },
    element("h2", {}, "Keyboard and mouse"),
    element(
      "dl",
      {},
      ...KEYS.filter(([keys]) => keys !== NOTE_KEY || !isEmbedded()).flatMap(([keys, what]) => [
        element("dt", {}, keys),
        element("dd", {}, what),
      ]),
    ),
    element("button", { class: "button", on: { click: () => this.dialog.close() } }, "Close"),
  );

  constructor() {
    document.body.append(this.dialog);
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  get isOpen(): boolean {
    return this.dialog.open;
  }

  toggle(): void {
    if (this.dialog.open) this.dialog.close();
    else this.dialog.showModal();
  }
}
