import { describe, expect, it } from "vitest";
import { formatBytes, formatLarge, formatMoment, formatShare, formatTime } from "../src/format";
import { oklch } from "../src/oklch";
import { visible } from "../src/dom";
import { roundStep } from "../src/view/ruler";

describe("numbers as people read them", () => {
  it.each([
    [0, "0"],
    [1, "1.00 ns"],
    [999, "999 ns"],
    [1234, "1.23 µs"],
    [12_345_678, "12.3 ms"],
    [999_600_000, "1.00 s"],
    [61e9, "61.0 s"],
    [-1500, "−1.50 µs"],
  ])("%d ns is %s", (value, text) => expect(formatTime(value)).toBe(text));

  it.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1536, "1.50 KiB"],
    [-(5 << 20), "−5.00 MiB"],
    [3 * 2 ** 40, "3.00 TiB"],
  ])("%d bytes are %s", (value, text) => expect(formatBytes(value)).toBe(text));

  it("writes moments as precisely as their neighbours need", () => {
    expect(formatMoment(1_500_000, 100_000)).toBe("1.5 ms");
    expect(formatMoment(2_000_000_000, 1000)).toBe("2.000000 s");
    expect(formatMoment(5_000_000, 5_000_000)).toBe("5 ms");
    expect(formatMoment(20, 5)).toBe("20 ns");
  });

  it("shortens large counts and small shares", () => {
    expect([formatLarge(950), formatLarge(9_437_184), formatLarge(2e12)]).toEqual([
      "950",
      "9.44 M",
      "2.00 T",
    ]);
    expect([formatShare(0.5), formatShare(0.0001), formatShare(0), formatShare(NaN)]).toEqual([
      "50.0%",
      "<0.1%",
      "0.0%",
      "",
    ]);
  });

  it("rounds steps to 1, 2 or 5", () => {
    expect([0.7, 1, 1.1, 3, 6, 90].map(roundStep)).toEqual([1, 1, 2, 5, 10, 100]);
  });
});

describe("text from a trace", () => {
  it("shows what cannot be seen", () => {
    expect(visible("a\u0000b\u001b[31m\u202e")).toBe("a␀b␛[31m\ufffd");
  });
});

describe("oklch", () => {
  it("knows black, white and red", () => {
    expect(oklch(0, 0, 0)).toBe("#000000");
    expect(oklch(1, 0, 0)).toBe("#ffffff");
    expect(oklch(0.62796, 0.25768, 29.234)).toBe("#ff0000");
  });
});
