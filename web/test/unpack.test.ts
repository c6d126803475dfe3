import { deflateSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { joinPlanes, unpackColumns } from "../src/data/unpack";

describe("unpackColumns", () => {
  it("reads what report/packing.py writes", async () => {
    // start: 1, 258 in two planes; label: 7 in one; duration: zero throughout, in none
    const bytes = new Uint8Array([1, 2, 0, 1, 7]);
    const columns = await unpackColumns(deflateSync(bytes).toString("base64"), [
      { name: "start", count: 2, planes: 2 },
      { name: "duration", count: 3, planes: 0 },
      { name: "label", count: 1, planes: 1 },
    ]);
    expect([...columns.start]).toEqual([1, 258]);
    expect([...columns.duration]).toEqual([0, 0, 0]);
    expect([...columns.label]).toEqual([7]);
  });

  it("is exact far beyond 32 bits", () => {
    const value = 2 ** 53 - 1;
    const bytes = Uint8Array.from({ length: 7 }, (_, i) => Number((BigInt(value) >> BigInt(8 * i)) & 255n));
    expect(joinPlanes(bytes, 0, 1, 7)[0]).toBe(value);
  });
});
