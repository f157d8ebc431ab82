// Zoom and pan of a drawing: wheel, drag, two fingers, keys and buttons. Changes one attribute of one group.

const LEAST = 0.15;
const MOST = 2.5;
const READABLE = 0.75; // not smaller than this by itself: a long drawing is better cut off than unreadable

export class Viewport {
  constructor(svg, group) {
    this.svg = svg;
    this.group = group;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.content = { width: 1, height: 1 };
    this.touched = false;
    this.pointers = new Map();
    this.dragged = 0; // pixels since a pointer went down
    this.listen();
  }

  /** Tell how large the drawing is; it is fitted until somebody has moved it. */
  resize(content) {
    this.content = content;
    if (!this.touched) this.fit();
  }

  fit() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width || !height) return;
    const margin = 24;
    const whole = Math.min((width - 2 * margin) / this.content.width, (height - 2 * margin) / this.content.height, 1.1);
    this.scale = Math.max(whole, Math.min(READABLE, (height - 2 * margin) / this.content.height, 1));
    const spare = width - this.content.width * this.scale;
    this.x = spare > 0 ? spare / 2 : margin;
    this.y = (height - this.content.height * this.scale) / 2;
    this.touched = false;
    this.apply();
  }

  zoom(factor, at) {
    const { width, height } = this.svg.getBoundingClientRect();
    const [cx, cy] = at ?? [width / 2, height / 2];
    const scale = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.x = cx - ((cx - this.x) / this.scale) * scale;
    this.y = cy - ((cy - this.y) / this.scale) * scale;
    this.scale = scale;
    this.touched = true;
    this.apply();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.touched = true;
    this.apply();
  }

  /** Move the drawing as little as needed to have a box in sight. */
  reveal({ x, y, width, height }) {
    const view = this.svg.getBoundingClientRect();
    const edge = 16;
    const move = (start, size, space) => (start < edge ? edge - start : start + size > space - edge ? Math.max(space - edge - start - size, edge - start) : 0);
    const dx = move(this.x + x * this.scale, width * this.scale, view.width);
    const dy = move(this.y + y * this.scale, height * this.scale, view.height);
    if (dx || dy) this.pan(dx, dy);
  }

  /** Whether the pointer that is released now has moved the drawing, so that no click is meant. */
  isDragged() {
    return this.dragged > 5;
  }

  apply() {
    this.group.setAttribute("transform", `translate(${this.x.toFixed(1)} ${this.y.toFixed(1)}) scale(${this.scale.toFixed(3)})`);
    this.onChange?.(this);
  }

  listen() {
    const place = (event) => {
      const { left, top } = this.svg.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) return; // the page scrolls, unless zooming is meant
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * 0.004), place(event));
    }, { passive: false });
    this.svg.addEventListener("pointerdown", (event) => {
      this.dragged = 0;
      this.pointers.set(event.pointerId, place(event));
    });
    addEventListener("pointerup", (event) => this.pointers.delete(event.pointerId));
    addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    this.svg.addEventListener("pointermove", (event) => this.drag(event.pointerId, place(event)));
    new ResizeObserver(() => this.touched || this.fit()).observe(this.svg);
  }

  drag(id, now) {
    const before = this.pointers.get(id);
    if (!before) return;
    this.dragged += Math.hypot(now[0] - before[0], now[1] - before[1]);
    const others = [...this.pointers].filter(([other]) => other !== id);
    if (others.length === 1) {
      const [[, other]] = others;
      const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]);
      if (apart(before) > 10) this.zoom(apart(now) / apart(before), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
    }
    this.pan((now[0] - before[0]) / (others.length + 1), (now[1] - before[1]) / (others.length + 1));
    this.pointers.set(id, now);
  }
}
