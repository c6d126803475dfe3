// Times along the top of a view.
import { formatMoment } from "../format";

// A round step such that labels are at least `least` apart.
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 5]) if (factor * power >= least) return factor * power;
  return 10 * power;
}

export function drawRuler(
  context: CanvasRenderingContext2D,
  from: number,
  perPixel: number,
  width: number,
  height: number,
  colors: { text: string; line: string },
): void {
  const step = Math.max(roundStep(perPixel * 90), 1);
  context.clearRect(0, 0, width, height);
  context.font = '10.5px system-ui, -apple-system, "Segoe UI", sans-serif';
  context.textBaseline = "middle";
  for (let tick = Math.max(0, Math.ceil(from / step)); ; tick++) {
    const x = Math.round((tick * step - from) / perPixel) + 0.5;
    if (x > width) break;
    context.fillStyle = colors.line;
    context.fillRect(x - 0.5, height - 6, 1, 6);
    context.fillStyle = colors.text;
    context.fillText(tick === 0 ? "0" : formatMoment(tick * step, step), x + 4, height / 2);
  }
}
