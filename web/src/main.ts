// Starts the page: unpacks the data that is in it, then shows it.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { goToAddress, keepAddress } from "./address";
import { App } from "./app";
import type { Report } from "./contract";
import { PageSource, ServerSource } from "./data/source";
import { Spans } from "./data/spans";
import { unpackColumns } from "./data/unpack";
import { element, replace } from "./dom";
import { State } from "./state";

declare global {
  interface Window {
    opscope?: { state: State; app: App }; // for tests
  }
}

async function start(): Promise<void> {
  const root = document.getElementById("opscope")!;
  document.documentElement.dataset["theme"] = matchMedia("(prefers-color-scheme: dark)").matches
    ? "dark"
    : "light";
  try {
    const report = JSON.parse(textOf("opscope-report")) as Report;
    const columns = await unpackColumns(textOf("opscope-columns"), report.columns);
    const source = root.dataset["served"] ? new ServerSource() : new PageSource();
    const state = new State(report, new Spans(report.spans, columns), columns, source);
    window.opscope = { state, app: new App(state, root) };
    goToAddress(state, location.hash.slice(1));
    keepAddress(state);
    root.dataset["ready"] = "true";
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const old =
      typeof DecompressionStream === "undefined"
        ? " This browser is too old for it: use one from 2023 or later."
        : "";
    replace(
      root,
      element("p", { class: "failure", role: "alert" }, `This report cannot be shown: ${reason}.${old}`),
    );
  }
}

// The text is needed once; the page does not keep it.
function textOf(id: string): string {
  const holder = document.getElementById(id)!;
  const text = holder.textContent ?? "";
  holder.remove();
  return text;
}

void start();
