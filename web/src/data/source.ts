// Where a page gets what it does not hold: from the server that it came from, or not at all.
import type { SpanSection, PackedColumn } from "../contract";
import type { TimeRange } from "./selection";
import { Spans } from "./spans";
import { unpackColumns } from "./unpack";

export interface Found {
  count: number;
  time: number;
  next: [number, number] | null; // when the next one begins and ends
}

export interface Rows {
  columns: string[];
  rows: string[][];
  isMore: boolean; // than these
}

export interface Source {
  readonly hasSql: boolean;
  spans(window: TimeRange): Promise<Spans>;
  find(text: string, exact: boolean, after: number, direction: 1 | -1): Promise<Found>;
  sql(query: string): Promise<Rows>;
}

// Of a page in a file: it holds all there is.
export class PageSource implements Source {
  readonly hasSql = false;
  spans(): Promise<Spans> {
    return Promise.reject(new Error("a page in a file has all its spans"));
  }
  find(): Promise<Found> {
    return Promise.reject(new Error("a page in a file finds by itself"));
  }
  sql(): Promise<Rows> {
    return Promise.reject(new Error("a page in a file answers no query; use opscope view"));
  }
}

interface WindowAnswer {
  spans: SpanSection;
  columns: PackedColumn[];
  data: string;
}

export class ServerSource implements Source {
  readonly hasSql = true;

  // Keeps a request open for as long as the page is: when it goes, so does the server.
  constructor() {
    new EventSource("alive");
  }

  async spans({ from, to }: TimeRange): Promise<Spans> {
    const answer = await ask<WindowAnswer>("spans", { from: whole(from), to: whole(to) });
    return new Spans(answer.spans, await unpackColumns(answer.data, answer.columns));
  }

  find(text: string, exact: boolean, after: number, direction: 1 | -1): Promise<Found> {
    const backwards = direction < 0 ? "1" : "0";
    return ask<Found>("find", { text, exact: exact ? "1" : "0", after: whole(after), backwards });
  }

  sql(query: string): Promise<Rows> {
    return ask<Rows>("sql", { query });
  }
}

async function ask<T>(name: string, query: Record<string, string>): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`${name}?${new URLSearchParams(query).toString()}`);
  } catch {
    throw new Error("opscope view has ended; start it again");
  }
  const answer = (await response.json()) as T & { error?: string };
  if (!response.ok) throw new Error(answer.error ?? `status ${response.status}`);
  return answer;
}

function whole(time: number): string {
  return String(Math.round(time));
}
