// A table of any length: sorted by any column, filtered by text, with only visible rows in the page.
import { element, replace } from "../dom";
import { matcher, problemOf } from "../data/search";

const ROW_HEIGHT = 26;
const MARGIN_ROWS = 8;
const MOST_LETTERS = 110;
const LETTER_WIDTH = 6.6; // pixels, of most
const SPARE_LETTERS = 6; // for the square before a text and the space around it

export interface Column {
  key: string;
  title: string;
  hint?: string;
  width: string; // of a grid track
  numeric: boolean;
  value: (row: number) => number | string;
  text?: (row: number) => string; // how a number is written
  bar?: (row: number) => number; // 0 to 1, drawn behind a number
  color?: (row: number) => string; // of a square before the text
  detail?: (row: number) => string; // quieter text after it
}

export interface TableOptions {
  rows: number;
  columns: Column[];
  sortBy: string;
  filterText?: (row: number) => string; // text that the filter searches
  placeholder?: string;
  extras?: HTMLElement[]; // beside the filter
  hidden?: (row: number) => boolean; // rows hidden by a switch
  last?: (row: number) => boolean; // rows that come last in every order
  note?: string; // at the end of the toolbar
  onPick?: (row: number) => void;
}

export class Table {
  readonly root = element("div", { class: "table-panel" });
  private readonly head = element("div", { class: "table-head", role: "row" });
  private readonly body = element("div", { class: "table-rows" });
  private readonly scroller = element("div", { class: "table-scroller", role: "table", tabIndex: 0 });
  private readonly count = element("span", { class: "table-count", aria: { live: "polite" } });
  private readonly filter: HTMLInputElement;
  private sortBy: string;
  private descending: boolean;
  private shown: number[] = [];
  private picked = -1;

  constructor(private readonly options: TableOptions) {
    this.sortBy = options.sortBy;
    this.descending = this.column(options.sortBy).numeric;
    this.filter = element("input", {
      type: "search",
      class: "table-filter",
      placeholder: options.placeholder ?? "Filter",
      spellcheck: false,
      aria: { label: options.placeholder ?? "Filter" },
      on: { input: () => this.refresh() },
    });
    const note = options.note ? element("span", { class: "table-note" }, options.note) : null;
    this.root.append(
      element("div", { class: "table-tools" }, this.filter, ...(options.extras ?? []), this.count, note),
      this.scroller,
    );
    this.scroller.append(this.head, this.body);
    this.scroller.style.setProperty(
      "--columns",
      options.columns.map((column) => this.widthOf(column)).join(" "),
    );
    this.scroller.addEventListener("scroll", () => this.renderRows());
    this.scroller.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.renderRows()).observe(this.scroller);
    this.refresh();
  }

  // Sorts and filters again; call it when the result of `hidden` has changed.
  refresh(): void {
    const { rows, hidden, columns } = this.options;
    const test = matcher(this.filter.value);
    const problem = problemOf(this.filter.value);
    const filterText = this.options.filterText ?? ((row) => String(columns[0].value(row)));
    this.shown = [];
    for (let row = 0; row < rows; row++) {
      if (!hidden?.(row) && (!this.filter.value || test(filterText(row)))) this.shown.push(row);
    }
    this.sort();
    const all = this.shown.length === rows;
    this.count.classList.toggle("bad", problem !== "");
    this.count.textContent = problem
      ? problem
      : all
        ? `${rows.toLocaleString("en-US")} rows`
        : `${this.shown.length} of ${rows} rows`;
    this.renderHead();
    this.body.style.height = `${this.shown.length * ROW_HEIGHT}px`;
    this.scroller.scrollTop = 0;
    this.renderRows();
  }

  // A column of text is as wide as its longest text, if that fits.
  private widthOf(column: Column): string {
    if (column.numeric || !column.width.startsWith("minmax")) return column.width;
    let longest = column.title.length;
    for (let row = 0; row < this.options.rows; row++) {
      const text = column.text?.(row) ?? String(column.value(row));
      longest = Math.max(longest, text.length + (column.detail?.(row).length ?? 0));
    }
    const width = (Math.min(longest, MOST_LETTERS) + SPARE_LETTERS) * LETTER_WIDTH;
    return column.width.replace(/, *[\d.]+fr\)/, `, ${width}px)`);
  }

  private sort(): void {
    const { value, numeric } = this.column(this.sortBy);
    const direction = this.descending ? -1 : 1;
    const keys = new Map(this.shown.map((row) => [row, value(row)]));
    const { last } = this.options;
    this.shown.sort((a, b) => {
      const after = last ? Number(last(a)) - Number(last(b)) : 0;
      if (after) return after;
      const [x, y] = [keys.get(a)!, keys.get(b)!];
      const order = numeric ? (x as number) - (y as number) : String(x).localeCompare(String(y));
      return order * direction || a - b;
    });
  }

  private column(key: string): Column {
    return this.options.columns.find((column) => column.key === key)!;
  }

  private renderHead(): void {
    const buttons = this.options.columns.map((column) => {
      const sorted = column.key === this.sortBy;
      const arrow = sorted ? (this.descending ? " ↓" : " ↑") : "";
      const button = element(
        "button",
        { title: column.hint ?? `Sort by ${column.title}`, on: { click: () => this.sortOn(column) } },
        column.title + arrow,
      );
      return element(
        "div",
        {
          class: column.numeric ? "numeric" : "",
          role: "columnheader",
          aria: { sort: sorted ? (this.descending ? "descending" : "ascending") : "none" },
          data: { key: column.key },
        },
        button,
      );
    });
    const focused = this.head.contains(document.activeElement);
    replace(this.head, ...buttons);
    if (focused) this.head.querySelector<HTMLElement>(`[data-key="${this.sortBy}"] button`)?.focus();
  }

  private sortOn(column: Column): void {
    this.descending = column.key === this.sortBy ? !this.descending : column.numeric;
    this.sortBy = column.key;
    this.refresh();
  }

  private renderRows(): void {
    const top = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - MARGIN_ROWS);
    const fit = Math.ceil(this.scroller.clientHeight / ROW_HEIGHT) + 2 * MARGIN_ROWS;
    const rows = this.shown.slice(top, top + fit).map((row, i) => this.renderRow(row, top + i));
    const empty = element("div", { class: "table-empty" }, "No rows match.");
    replace(this.body, ...(rows.length || this.options.rows === 0 ? rows : [empty]));
  }

  // Arrows choose a row, Enter does what a click does.
  private pressed(event: KeyboardEvent): void {
    const { onPick } = this.options;
    if (event.target !== this.scroller || !this.shown.length) return;
    const now = this.shown.indexOf(this.picked);
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 2);
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const move = moves[event.key];
    if (move !== undefined) {
      const next = Math.min(Math.max(now + move, 0), this.shown.length - 1);
      this.picked = this.shown[next];
      this.reveal(next);
      this.renderRows();
    } else if (event.key === "Enter" && now >= 0) {
      onPick?.(this.picked);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private reveal(position: number): void {
    const { scrollTop, clientHeight } = this.scroller;
    const top = position * ROW_HEIGHT;
    const below = top + 2 * ROW_HEIGHT - clientHeight; // the head stays in view
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (below > scrollTop) this.scroller.scrollTop = below;
  }

  private renderRow(row: number, position: number): HTMLElement {
    const cells = this.options.columns.map((column) => renderCell(column, row));
    const node = element("div", { class: "table-row", role: "row", data: { row: String(row) } }, ...cells);
    node.style.top = `${position * ROW_HEIGHT}px`;
    if (row === this.picked) {
      node.classList.add("picked");
      node.setAttribute("aria-selected", "true");
    }
    const { onPick } = this.options;
    if (onPick) {
      node.classList.add("pickable");
      node.addEventListener("click", () => {
        this.picked = row;
        onPick(row);
        this.renderRows();
      });
    }
    return node;
  }
}

function renderCell(column: Column, row: number): HTMLElement {
  const value = column.value(row);
  const text = column.text ? column.text(row) : String(value);
  const cell = element("div", { class: column.numeric ? "numeric" : "text", role: "cell" });
  if (column.bar) {
    const bar = element("span", { class: "bar" });
    bar.style.width = `${Math.min(1, Math.max(0, column.bar(row))) * 100}%`;
    cell.append(bar);
  }
  if (column.color) {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = column.color(row);
    cell.append(swatch);
  }
  cell.append(element("span", { class: "cell-text" }, text));
  const detail = column.detail?.(row);
  if (detail) cell.append(element("span", { class: "cell-detail" }, detail));
  if (!column.numeric) cell.title = detail ? `${text} ${detail}` : text;
  return cell;
}
