// The search field, the number of matches, and steps from match to match.
import { element } from "./dom";
import { formatCount, formatTime } from "./format";
import type { Search } from "./data/search";
import type { State } from "./state";

export class SearchBox {
  readonly root = element("div", { class: "search", role: "search" });
  private readonly field: HTMLInputElement;
  private readonly found = element("span", { class: "search-found", aria: { live: "polite" } });

  constructor(private readonly state: State) {
    this.field = element("input", {
      type: "search",
      placeholder: "Search spans   /",
      spellcheck: false,
      aria: { label: "Search spans" },
      on: {
        input: () => state.setSearch(this.field.value),
        keydown: (event) => event.key === "Enter" && this.go(event.shiftKey ? -1 : 1),
      },
    });
    this.root.append(
      this.field,
      this.found,
      element(
        "button",
        {
          class: "icon",
          title: "Previous match (Shift+N)",
          aria: { label: "Previous match" },
          on: { click: () => this.go(-1) },
        },
        "‹",
      ),
      element(
        "button",
        {
          class: "icon",
          title: "Next match (N)",
          aria: { label: "Next match" },
          on: { click: () => this.go(1) },
        },
        "›",
      ),
    );
    state.on(["search"], () => this.show());
    this.show();
  }

  focus(): void {
    this.field.focus();
    this.field.select();
  }

  clear(): void {
    this.field.value = "";
    this.state.setSearch("");
  }

  go(direction: 1 | -1): void {
    this.state.goToNext(direction).catch((error: unknown) => this.say(String(error)));
  }

  private say(text: string): void {
    this.found.textContent = text;
  }

  // Counts all spans of the recording, even if the page has only some.
  private async countAll(search: Search): Promise<void> {
    if (search.text.startsWith("/")) return this.say("in this window");
    try {
      const { count, time } = await this.state.source.find(search.text, search.exact, 0, 1);
      if (this.state.search === search) this.say(`${formatCount(count)} · ${formatTime(time)}`);
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error));
    }
  }

  private show(): void {
    const { search } = this.state;
    if (document.activeElement !== this.field) this.field.value = search?.text ?? "";
    const isPart = !!search && !search.problem && !!this.state.spans.window;
    this.found.textContent = !search
      ? ""
      : isPart
        ? "…"
        : search.problem || `${formatCount(search.spanCount)} · ${formatTime(search.totalTime)}`;
    if (isPart) void this.countAll(search);
    this.found.title = search?.problem ?? "";
    this.found.classList.toggle("bad", !!search?.problem);
    this.root.classList.toggle("active", search !== null);
  }
}
