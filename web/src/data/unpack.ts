// Columns out of the page: base64, zlib, then byte planes (see report/packing.py).
import type { ColumnName, PackedColumn } from "../contract";

export type OfRanks = "rankTime" | "rankOwn"; // only for jobs with ranks
type Optional = OfRanks | "merged";
export type Columns = Record<Exclude<ColumnName, Optional>, Float64Array> &
  Partial<Record<Optional, Float64Array>>;

export async function unpackColumns(text: string, directory: PackedColumn[]): Promise<Columns> {
  const bytes = await inflate(fromBase64(text));
  const columns = {} as Columns;
  let offset = 0;
  for (const { name, count, planes } of directory) {
    columns[name] = joinPlanes(bytes, offset, count, planes);
    offset += count * planes;
  }
  return columns;
}

// Float64 holds every time and size exactly up to 2^53: 104 days of nanoseconds.
export function joinPlanes(bytes: Uint8Array, offset: number, count: number, planes: number): Float64Array {
  const values = new Float64Array(count);
  let weight = 1;
  for (let plane = 0; plane < planes; plane++) {
    const start = offset + plane * count;
    for (let i = 0; i < count; i++) values[i] += bytes[start + i] * weight;
    weight *= 256;
  }
  return values;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
