// The view's state in the page's address, so that a link or a reload shows the same.
import type { State } from "./state";

const QUIET_MS = 250; // browsers refuse addresses that change with every frame

export function addressOf(state: State): string {
  const parts = new URLSearchParams();
  const { view, range, selected, search, tab, pinned, notes } = state;
  if (tab !== "overview" || range || selected >= 0) parts.set("tab", tab);
  if (!state.seesWhatCameFirst) parts.set("view", times(view.from, view.to));
  if (range) parts.set("range", times(range.from, range.to));
  if (selected >= 0 && !state.spans.window) parts.set("span", String(selected));
  if (search) parts.set(search.exact ? "name" : "search", search.text);
  for (const line of pinned) parts.append("pin", line);
  for (const { time, text } of notes) parts.append("note", `${Math.round(time)} ${text}`);
  return parts.toString();
}

export function goToAddress(state: State, address: string): void {
  const parts = new URLSearchParams(address);
  const [name, text] = [parts.get("name"), parts.get("search")];
  if (name || text) state.setSearch(name ?? text ?? "", name !== null);
  const range = readTimes(parts.get("range"));
  if (range) state.selectRange({ from: range[0], to: Math.min(range[1], state.duration) });
  const span = Number(parts.get("span") ?? -1);
  if (Number.isInteger(span) && span >= 0 && !state.spans.window && span < state.spans.count)
    state.goTo(span);
  const view = readTimes(parts.get("view"));
  if (view) state.setView(...view);
  const notes = parts.getAll("note").flatMap((text) => {
    const found = /^(\d{1,18}) (.{1,500})$/.exec(text);
    return found ? [{ time: Number(found[1]), text: found[2] }] : [];
  });
  const pinned = parts.getAll("pin");
  if (notes.length || pinned.length) state.setMarks(pinned, notes);
  const tab = parts.get("tab");
  if (tab) state.setTab(tab);
}

// A page in a notebook's cell has no address of its own, and no dialogs.
export const isEmbedded = (): boolean => location.protocol === "about:";

export function keepAddress(state: State): void {
  if (isEmbedded()) return;
  let timer = 0;
  const write = () => {
    const address = addressOf(state);
    history.replaceState(null, "", address ? `#${address}` : location.pathname + location.search);
  };
  state.on(["view", "selection", "search", "tab", "marks"], () => {
    clearTimeout(timer);
    timer = window.setTimeout(write, QUIET_MS);
  });
  window.addEventListener("hashchange", () => goToAddress(state, location.hash.slice(1)));
}

function times(from: number, to: number): string {
  return `${Math.round(from)}-${Math.round(to)}`;
}

// Parses "from-to"; "from" is negative before the recording.
function readTimes(text: string | null): [number, number] | null {
  const found = /^(-?\d+)-(\d+)$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [Number(found[1]), Number(found[2])];
  return from < to ? [from, to] : null;
}
