// Elements from code. Text is always text: nothing here, or anywhere, parses markup.

type Child = Node | string | number | null | undefined | false;
type Properties<T> = { [K in keyof T]?: T[K] } & {
  class?: string;
  data?: Record<string, string>;
  role?: string;
  aria?: Record<string, string>;
  on?: { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };
};

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties<HTMLElementTagNameMap[K]> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  const { class: className, data, aria, role, on, ...rest } = properties;
  if (className) node.className = className;
  if (role) node.setAttribute("role", role);
  for (const [name, value] of Object.entries(data ?? {})) node.dataset[name] = value;
  for (const [name, value] of Object.entries(aria ?? {})) node.setAttribute(`aria-${name}`, value);
  for (const [name, listener] of Object.entries(on ?? {}))
    node.addEventListener(name, listener as EventListener);
  Object.assign(node, rest);
  node.append(
    ...children.filter((child) => child !== null && child !== undefined && child !== false).map(asNode),
  );
  return node;
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(
    ...children.filter((child) => child !== null && child !== undefined && child !== false).map(asNode),
  );
}

// A canvas as large as its element, sharp on every screen. Returns its size in CSS pixels.
export function fitCanvas(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// Makes invisible characters, and those that change the layout of text, visible.
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => {
      const code = character.charCodeAt(0);
      return code < 0x20 ? String.fromCharCode(0x2400 + code) : "\ufffd";
    },
  );
}

function asNode(child: Child): Node {
  return child instanceof Node ? child : document.createTextNode(visible(String(child)));
}
