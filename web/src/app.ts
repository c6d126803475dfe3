// The page: header, timeline above, panels below, and what connects them.
import type { Run } from "./contract";
import { element, replace } from "./dom";
import { formatCount, formatShare, formatTime } from "./format";
import { Help } from "./help";
import { listenToKeys } from "./keyboard";
import { devicesPanel } from "./panels/devices";
import { differencesPanel } from "./panels/differences";
import { findingsPanel } from "./panels/findings";
import { flamePanel } from "./panels/flame";
import { memoryPanel } from "./panels/memory";
import { overviewPanel } from "./panels/overview";
import { verdictCard } from "./panels/verdict";
import { ranksPanel } from "./panels/ranks";
import { runPanel } from "./panels/run";
import { sqlPanel } from "./panels/sql";
import { selectionPanel } from "./panels/selection";
import { stepsPanel } from "./panels/steps";
import { countOperators, modulesPanel, operatorsPanel, sourcesPanel } from "./panels/tables";
import { SearchBox } from "./search_box";
import type { State } from "./state";
import { Loader } from "./view/loader";
import { Timeline } from "./view/timeline";
import { Tooltip } from "./view/tooltip";

const LEAST_PART = 120; // pixels of timeline and panel that stay in view
const KEY_STEP = 40;

interface Tab {
  id: string;
  title: string;
  badge: string;
  make: () => HTMLElement;
  follows: ("selection" | "search")[]; // changes that require a rebuild
}

export class App {
  readonly timeline: Timeline;
  private readonly tabs: Tab[];
  private readonly tabBar = element("nav", { class: "tabs", role: "tablist", aria: { label: "Panels" } });
  private readonly panel = element("main", { class: "panel", role: "tabpanel" });
  private readonly tooltip = new Tooltip();
  private readonly help = new Help();
  private readonly searchBox: SearchBox;
  private readonly notice = element("p", { class: "failure", role: "alert", hidden: true });
  private themeChosen = false;

  constructor(
    private readonly state: State,
    root: HTMLElement,
  ) {
    this.timeline = new Timeline(state);
    this.searchBox = new SearchBox(state);
    this.tabs = this.makeTabs();
    const splitter = element("div", {
      class: "splitter",
      role: "separator",
      tabIndex: 0,
      title: "Drag, or use the arrow keys, to resize the timeline",
      aria: { orientation: "horizontal", label: "Height of the timeline" },
    });
    this.tabBar.addEventListener("keydown", (event) => this.tabKey(event));
    replace(
      root,
      this.header(),
      verdictCard(state.report.verdict),
      this.notice,
      this.timeline.root,
      splitter,
      this.tabBar,
      this.panel,
    );
    this.listenToSplitter(splitter);
    state.on(["tab", "theme"], () => this.showTab());
    state.on(["selection"], () => this.selectionChanged());
    state.on(["search"], () => this.refreshIf("search"));
    state.on(["spans"], () => this.refreshIf("selection"));
    new Loader(state, (reason) => this.problem(reason));
    listenToKeys(state, this.timeline, {
      focusSearch: () => this.searchBox.focus(),
      clearSearch: () => this.searchBox.clear(),
      nextMatch: (direction) => this.searchBox.go(direction),
      toggleHelp: () => this.help.toggle(),
      helpIsOpen: () => this.help.isOpen,
      toggleTheme: () => this.toggleTheme(),
      togglePython: () => state.showPython(!state.pythonShown),
      openTab: (position) => this.tabs[position] && state.setTab(this.tabs[position].id),
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
      if (!this.themeChosen) state.setTheme(event.matches);
    });
    this.state.tab = this.tabs[0].id;
    this.showTab();
    this.timeline.draw();
  }

  private makeTabs(): Tab[] {
    const { state, tooltip } = this;
    const { report } = state;
    const tabs: Tab[] = [
      { id: "overview", title: "Overview", badge: "", make: () => overviewPanel(state), follows: [] },
      {
        id: "findings",
        title: "Findings",
        badge: report.findings.found.length ? formatCount(report.findings.found.length) : "",
        make: () => findingsPanel(state),
        follows: [],
      },
      {
        id: "selection",
        title: "Selection",
        badge: "",
        make: () => selectionPanel(state),
        follows: ["selection"],
      },
      {
        id: "operators",
        title: "Operators",
        badge: formatCount(countOperators(report.operators.columns)),
        make: () => operatorsPanel(state),
        follows: [],
      },
      {
        id: "modules",
        title: "Modules",
        badge: rows(report.modules),
        make: () => modulesPanel(state),
        follows: [],
      },
      {
        id: "sources",
        title: "Source lines",
        badge: rows(report.sources),
        make: () => sourcesPanel(state),
        follows: [],
      },
      {
        id: "flame",
        title: "Flame graph",
        badge: "",
        make: () => flamePanel(state, tooltip),
        follows: ["selection", "search"],
      },
      { id: "memory", title: "Memory", badge: "", make: () => memoryPanel(state), follows: [] },
      {
        id: "steps",
        title: "Steps",
        badge: report.steps ? formatCount(report.steps.allSteps) : "",
        make: () => stepsPanel(state, tooltip),
        follows: [],
      },
      { id: "run", title: "Run", badge: "", make: () => runPanel(state), follows: [] },
    ];
    if (state.source.hasSql)
      tabs.splice(-1, 0, { id: "sql", title: "SQL", badge: "", make: () => sqlPanel(state), follows: [] });
    const { ranks, devices, differences } = report;
    if (devices)
      tabs.splice(-1, 0, {
        id: "devices",
        title: "Devices",
        badge: devices.devices.length ? formatCount(devices.devices.length) : "",
        make: () => devicesPanel(state, devices),
        follows: [],
      });
    if (differences)
      tabs.splice(1, 0, {
        id: "differences",
        title: "Differences",
        badge: "",
        make: () => differencesPanel(differences),
        follows: [],
      });
    if (ranks)
      tabs.splice(1, 0, {
        id: "ranks",
        title: "Ranks",
        badge: formatCount(ranks.names.length),
        make: () => ranksPanel(state, ranks, tooltip),
        follows: [],
      });
    // A memory snapshot has no other panel.
    const isSnapshot = !state.spans.count && report.memory.length > 0;
    return isSnapshot ? tabs.filter((tab) => tab.id === "memory") : tabs;
  }

  private header(): HTMLElement {
    const { title, run } = this.state.report;
    const facts = [
      ...run.machine
        .filter(([name]) => name !== "process")
        .map(([name, value]) => (name === "host" ? value : `${name} ${value}`)),
      `${formatCount(run.counts.events + run.counts.gpu)} spans`,
      this.recorded(),
    ];
    const dropped =
      run.dropped > 0
        ? chip(
            "bad",
            `${formatCount(run.dropped)} dropped`,
            `Events are missing from this recording.\n${reasons(run.ledger)}`,
          )
        : run.ledger.length
          ? chip("good", "nothing dropped", "All requested events were recorded.")
          : null;
    const cost =
      run.costNs !== null && run.duration > 0
        ? chip(
            "",
            `recording ${formatShare(run.costNs / run.duration)}`,
            `Overhead of recording: about ${formatTime(run.costNs)}, calibrated on this machine.`,
          )
        : null;
    return element(
      "header",
      {},
      element("span", { class: "mark", title: "opscope" }, element("i"), element("i"), element("i")),
      element("h1", { title: run.program }, title),
      element("span", { class: "facts", title: facts.join(" · ") }, facts.join(" · ")),
      dropped,
      cost,
      element("span", { class: "grow" }),
      this.searchBox.root,
      iconButton("−", "Zoom out (S)", () => this.zoom(1.6)),
      iconButton("+", "Zoom in (W)", () => this.zoom(1 / 1.6)),
      iconButton("⤢", "Show everything (0)", () => this.state.showAll()),
      iconButton("◐", "Light or dark (T)", () => this.toggleTheme()),
      iconButton("?", "Keyboard and mouse (?)", () => this.help.toggle()),
    );
  }

  // Extent of the recording, and of the page's period if it differs.
  private recorded(): string {
    const [all, part] = [formatTime(this.state.report.run.duration), formatTime(this.state.wall)];
    return all === part ? all : `${part} of ${all} recorded`;
  }

  // Reason why the page cannot show the requested view; empty if it can.
  private problem(reason: string): void {
    this.notice.textContent = reason;
    this.notice.hidden = !reason;
  }

  private zoom(factor: number): void {
    this.state.zoom(factor, (this.state.view.from + this.state.view.to) / 2);
  }

  private toggleTheme(): void {
    this.themeChosen = true;
    this.state.setTheme(!this.state.theme.dark);
  }

  private showTab(): void {
    const hadFocus = this.tabBar.contains(document.activeElement);
    replace(
      this.tabBar,
      ...this.tabs.map((tab) => {
        const selected = tab.id === this.state.tab;
        return element(
          "button",
          {
            class: selected ? "tab on" : "tab",
            role: "tab",
            tabIndex: selected ? 0 : -1,
            aria: { selected: String(selected) },
            data: { tab: tab.id },
            on: { click: () => this.state.setTab(tab.id) },
          },
          tab.title,
          tab.badge ? element("span", { class: "badge" }, tab.badge) : null,
        );
      }),
    );
    if (hadFocus) this.tabBar.querySelector<HTMLElement>(".on")?.focus();
    this.tooltip.hide(); // its subject may be in the closed panel
    const current = this.tabs.find((tab) => tab.id === this.state.tab) ?? this.tabs[0];
    this.panel.setAttribute("aria-label", current.title);
    replace(this.panel, current.make());
  }

  private selectionChanged(): void {
    const { state } = this;
    if (state.staying) return;
    const something = state.selected >= 0 || state.range !== null;
    const follows = this.tabs.find((tab) => tab.id === state.tab)?.follows.includes("selection");
    if (something && !(follows && (state.range || state.tab === "selection"))) state.setTab("selection");
    else this.refreshIf("selection");
  }

  // Rebuilt at most once per frame: a selection changes with every movement of the pointer.
  private refreshIf(change: "selection" | "search"): void {
    if (!this.tabs.find((tab) => tab.id === this.state.tab)?.follows.includes(change) || this.refreshing)
      return;
    this.refreshing = true;
    requestAnimationFrame(() => {
      this.refreshing = false;
      this.showTab();
    });
  }
  private refreshing = false;

  // Arrows move between panels, as in every list of tabs.
  private tabKey(event: KeyboardEvent): void {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const now = this.tabs.findIndex((tab) => tab.id === this.state.tab);
    this.state.setTab(this.tabs[(now + move + this.tabs.length) % this.tabs.length].id);
    event.preventDefault();
    event.stopPropagation();
  }

  private resizeTimeline(height: number): void {
    const { top } = this.timeline.root.getBoundingClientRect();
    const allowed = Math.min(Math.max(height, LEAST_PART), innerHeight - top - LEAST_PART);
    this.timeline.root.style.flexBasis = `${allowed}px`;
    this.timeline.schedule();
  }

  private listenToSplitter(splitter: HTMLElement): void {
    splitter.addEventListener("keydown", (event) => {
      const move = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!move) return;
      this.resizeTimeline(this.timeline.root.clientHeight + move * KEY_STEP);
      event.preventDefault();
      event.stopPropagation();
    });
    splitter.addEventListener("pointerdown", (event) => {
      splitter.setPointerCapture(event.pointerId);
      const move = (moved: PointerEvent) => {
        this.resizeTimeline(moved.clientY - this.timeline.root.getBoundingClientRect().top);
      };
      splitter.addEventListener("pointermove", move);
      splitter.addEventListener("pointerup", () => splitter.removeEventListener("pointermove", move), {
        once: true,
      });
    });
  }
}

function rows(section: { allRows: number } | null): string {
  return section ? formatCount(section.allRows) : "";
}

function reasons(ledger: Run["ledger"]): string {
  return ledger
    .filter(({ what, value }) => what.startsWith("dropped") && value > 0)
    .map(({ source, what, value }) => `${formatCount(value)} ${source} ${what}`)
    .join("\n");
}

function chip(kind: string, text: string, title: string): HTMLElement {
  return element("span", { class: `chip ${kind}`, title }, text);
}

function iconButton(text: string, title: string, onClick: () => void): HTMLElement {
  return element("button", { class: "icon", title, aria: { label: title }, on: { click: onClick } }, text);
}
