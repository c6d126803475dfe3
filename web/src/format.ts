// Numbers as people read them.

const TIME_UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];
const ROUNDS_UP = 0.9995; // 999.6 ms is 1.00 s
const SIZE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const LARGE_UNITS = ["", "k", "M", "G", "T", "P"];

export function formatTime(nanoseconds: number): string {
  if (nanoseconds < 0) return `−${formatTime(-nanoseconds)}`;
  if (nanoseconds === 0) return "0";
  for (const [size, unit] of TIME_UNITS) {
    if (nanoseconds >= size * ROUNDS_UP) return `${threeDigits(nanoseconds / size)} ${unit}`;
  }
  return "<1 ns";
}

// With as many decimals as needed to distinguish times that differ by `resolution`.
export function formatMoment(nanoseconds: number, resolution: number): string {
  const scale = Math.max(resolution, 1);
  const [size, unit] = TIME_UNITS.find(([s]) => Math.max(nanoseconds, scale) >= s) ?? [1, "ns"];
  const decimals = Math.max(0, Math.min(9, Math.ceil(Math.log10(size / scale) - 1e-9)));
  return `${(nanoseconds / size).toFixed(decimals)} ${unit}`;
}

export function formatBytes(bytes: number): string {
  if (bytes < 0) return `−${formatBytes(-bytes)}`;
  let unit = 0;
  while (bytes >= 1024 && unit < SIZE_UNITS.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return unit === 0 ? `${bytes} B` : `${threeDigits(bytes)} ${SIZE_UNITS[unit]}`;
}

export function formatCount(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

export function formatLarge(value: number): string {
  let unit = 0;
  while (value >= 1000 && unit < LARGE_UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return unit === 0 ? String(value) : `${threeDigits(value)} ${LARGE_UNITS[unit]}`;
}

export function formatShare(share: number): string {
  if (!Number.isFinite(share)) return "";
  if (share > 0 && share < 0.0005) return "<0.1%";
  return `${(share * 100).toFixed(1)}%`;
}

function threeDigits(value: number): string {
  return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}
