// Source of data that the page does not contain: its server, or none.
import type { SpanSection, PackedColumn } from "../contract";
import type { TimeRange } from "./selection";
import { Spans } from "./spans";
import { unpackColumns } from "./unpack";

export interface Found {
  count: number;
  time: number;
  next: [number, number] | null; // begin and end of the next match
}

export interface Rows {
  columns: string[];
  rows: string[][];
  isMore: boolean; // more rows exist
}

export interface Source {
  readonly hasSql: boolean;
  spans(window: TimeRange): Promise<Spans>;
  find(text: string, exact: boolean, after: number, direction: 1 | -1): Promise<Found>;
  sql(query: string): Promise<Rows>;
}

// For a page in a file, which contains all data.
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

  // Keeps a request open while the page is open; the server ends with it.
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
