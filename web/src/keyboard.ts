// The page by keyboard alone. Keys that move keep moving while they are held.
import { isEmbedded } from "./address";
import type { State } from "./state";
import type { Timeline } from "./view/timeline";

export interface KeyActions {
  focusSearch: () => void;
  clearSearch: () => void;
  nextMatch: (direction: 1 | -1) => void;
  toggleHelp: () => void;
  helpIsOpen: () => boolean;
  toggleTheme: () => void;
  openTab: (position: number) => void;
  togglePython: () => void;
}

const MOVES: Record<string, (state: State, timeline: Timeline, amount: number) => void> = {
  w: (state, timeline, amount) => state.zoom(Math.exp(-1.6 * amount), centre(state, timeline)),
  s: (state, timeline, amount) => state.zoom(Math.exp(1.6 * amount), centre(state, timeline)),
  a: (state, _timeline, amount) => state.pan(-0.9 * amount),
  d: (state, _timeline, amount) => state.pan(0.9 * amount),
};
const SAME: Record<string, string> = { "+": "w", "=": "w", "-": "s", arrowleft: "a", arrowright: "d" };
const FIRST_STEP = 0.14; // of a second's movement, at once when a key goes down

export function listenToKeys(state: State, timeline: Timeline, actions: KeyActions): void {
  const held = new Set<string>();
  let last = 0;
  const move = (now: number) => {
    if (!held.size) return;
    for (const key of held) MOVES[key](state, timeline, Math.min((now - last) / 1000, 0.1));
    last = now;
    requestAnimationFrame(move);
  };
  document.addEventListener("keydown", (event) => {
    if (isTyping(event.target)) return leaveOnEscape(event, actions);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (actions.helpIsOpen() && event.key !== "?") return; // the dialog closes itself on Escape
    const key = event.key.toLowerCase();
    if (state.selected >= 0 && key.startsWith("arrow")) {
      event.preventDefault();
      return walk(state, key);
    }
    const movement = SAME[key] ?? key;
    if (movement in MOVES) {
      event.preventDefault();
      if (held.has(movement)) return;
      MOVES[movement](state, timeline, FIRST_STEP);
      held.add(movement);
      last = performance.now();
      if (held.size === 1) requestAnimationFrame(move);
      return;
    }
    if (press(key, event, state, timeline, actions)) event.preventDefault();
  });
  document.addEventListener("keyup", (event) => {
    const key = event.key.toLowerCase();
    held.delete(SAME[key] ?? key);
  });
  window.addEventListener("blur", () => held.clear());
}

function press(
  key: string,
  event: KeyboardEvent,
  state: State,
  timeline: Timeline,
  actions: KeyActions,
): boolean {
  if (/^[1-9]$/.test(key)) actions.openTab(Number(key) - 1);
  else if (key === "0" || key === "home") state.showAll();
  else if (key === "/") actions.focusSearch();
  else if (key === "?") actions.toggleHelp();
  else if (key === "t") actions.toggleTheme();
  else if (key === "m" && !isEmbedded()) timeline.editNote();
  else if (key === "p") actions.togglePython();
  else if (key === "n") actions.nextMatch(event.shiftKey ? -1 : 1);
  else if (key === "arrowup" || key === "arrowdown") timeline.scrollBy(key === "arrowup" ? -54 : 54);
  else if (key === "enter" || key === "f") focusSelection(state);
  else if (key === "escape") {
    state.selectRange(null);
    actions.clearSearch();
  } else return false;
  return true;
}

function focusSelection(state: State): void {
  const { spans, selected, range } = state;
  if (selected >= 0) state.focus(spans.start[selected], spans.end[selected]);
  else if (range) state.focus(range.from, range.to);
}

// Moves to the parent, the first child, or the neighbours on the same row.
function walk(state: State, key: string): void {
  const { spans, selected } = state;
  const { shown } = spans;
  if (key === "arrowup" || key === "arrowdown") {
    const next = key === "arrowup" ? shown.parent(selected) : shown.firstInside(selected);
    if (next >= 0) state.goTo(next);
    return;
  }
  const row = shown.rows[spans.lineOf(selected)][shown.depth[selected]];
  let position = shown.firstStartingAt(row, spans.start[selected], row.begin);
  while (shown.order[position] !== selected) position++;
  position += key === "arrowright" ? 1 : -1;
  if (position >= row.begin && position < row.end) state.goTo(shown.order[position]);
}

function leaveOnEscape(event: KeyboardEvent, actions: KeyActions): void {
  if (event.key !== "Escape") return;
  actions.clearSearch();
  (event.target as HTMLElement).blur();
}

function centre(state: State, timeline: Timeline): number {
  return timeline.pointerTime ?? (state.view.from + state.view.to) / 2;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement
    ? target.type !== "checkbox"
    : target instanceof HTMLSelectElement;
}
