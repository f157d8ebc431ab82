// The dataflow as a drawing: a box per vertex with its live figures, an arrow per exchange.

import { h, show } from "../dom.js";
import * as format from "../format.js";
import { kindOf } from "./controls.js";
import { layout } from "./layout.js";
import { chainOf, fit } from "./text.js";
import { Viewport } from "./viewport.js";

const WIDTH = 252;
const LINE = 17;
const PAD = 12;
const MOST_LINES = 4;
const FIGURES = 66;
const FONT = "13px system-ui, sans-serif";
const BOLD = "600 13.5px system-ui, sans-serif";

/** What a drawing needs to know of a plan: [{id, lines, parallelism, inputs}] from Flink's plan nodes. */
export function nodesOfPlan(plan) {
  return (plan?.nodes ?? []).map((node) => ({
    id: node.id,
    lines: chainOf(node.operator || node.description, node.description),
    parallelism: node.parallelism,
    inputs: node.inputs ?? [],
  }));
}

const heightOf = ({ lines }, live) => PAD * 2 + Math.min(lines.length, MOST_LINES + 1) * LINE + (live ? FIGURES : LINE);

export class Graph {
  /** `choose(id)` is called when a vertex is opened; `live` says whether boxes have figures. */
  constructor(element, { choose = () => {}, live = true, label = "Dataflow" }) {
    Object.assign(this, { choose, live, label, nodes: [], figures: new Map(), placed: null, shape: "", focused: undefined });
    show(element,
      h("svg", { class: "graph", role: "group", "aria-label": `${label}: arrow keys go from vertex to vertex, Enter opens one`, ref: (svg) => (this.svg = svg), onKeydown: (event) => this.key(event) },
        h("defs", {}, h("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" }, h("path", { d: "M0 0L8 4L0 8z" }))),
        h("g", { ref: (group) => (this.group = group) })),
      h("div", { class: "graph-tools" },
        this.button("−", "Zoom out (−)", () => this.viewport.zoom(1 / 1.25)),
        this.button("+", "Zoom in (+)", () => this.viewport.zoom(1.25)),
        this.button("Fit", "Fit (0)", () => this.viewport.fit())));
    this.viewport = new Viewport(this.svg, this.group);
  }

  button(text, title, onClick) {
    return h("button", { type: "button", title, "aria-label": title, onClick }, text);
  }

  /** Show a plan with its figures: a map of vertex to what `box` reads. */
  update(nodes, figures, chosen) {
    Object.assign(this, { nodes, figures, chosen });
    const shape = JSON.stringify(nodes.map(({ id, lines, inputs }) => [id, lines.length, inputs.map((input) => input.id)]));
    if (shape !== this.shape) {
      this.shape = shape;
      this.place();
    }
    this.draw();
  }

  place() {
    const boxes = this.nodes.map((node) => ({ id: node.id, width: WIDTH, height: heightOf(node, this.live) }));
    const edges = this.nodes.flatMap(({ id, inputs }) => inputs.map((input) => ({ source: input.id, target: id, label: input.ship_strategy ?? "", exchange: input.exchange ?? "" })));
    this.placed = layout(boxes, edges);
    this.viewport.resize(this.placed);
  }

  draw() {
    const { edges } = this.placed;
    show(this.group, edges.map((edge, at) => this.edge(edge, at)), this.nodes.map((node) => this.box(node)));
  }

  edge(edge, at) {
    const [middle, d] = curve(edge.points);
    const held = (this.figures.get(edge.source)?.backPressured ?? 0) > 0.1;
    return h("g", { class: `edge ${held ? "held" : ""} ${edge.isBack ? "back" : ""}`, key: `${edge.source}>${edge.target}#${at}` },
      h("path", { d, "marker-end": "url(#arrow)" }),
      edge.label ? h("text", { x: middle.x, y: middle.y - 6, "text-anchor": "middle" }, edge.label.toLowerCase(), h("title", {}, edge.exchange)) : null);
  }

  box(node) {
    const { x, y, width, height } = this.placed.nodes.get(node.id);
    const live = this.figures.get(node.id) ?? {};
    const classes = ["vertex", kindOf(live.status), loadClass(live), this.chosen === node.id ? "chosen" : ""].join(" ");
    return h("g", { key: node.id, class: classes, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, tabindex: node.id === this.entry() ? 0 : -1, role: "button", "aria-label": describe(node, live), "data-vertex": node.id,
      onClick: () => this.viewport.isDragged() || this.choose(node.id), onFocus: (event) => this.focus(node.id, event.target.matches(":focus-visible")) },
      h("title", {}, node.lines.join("\n")),
      h("rect", { class: "body", width, height, rx: 9 }),
      h("rect", { class: "edge-of", width: 5, height: height - 18, x: 0, y: 9, rx: 2 }),
      this.names(node),
      this.live ? this.figuresOf(live, height) : h("text", { class: "figure", x: PAD + 4, y: height - PAD }, `parallelism ${node.parallelism}`),
      this.live ? h("text", { class: "parallelism", x: width - PAD, y: PAD + 13, "text-anchor": "end" }, `∥ ${node.parallelism}`) : null);
  }

  names({ lines }) {
    const shown = lines.length > MOST_LINES + 1 ? [...lines.slice(0, MOST_LINES), `and ${lines.length - MOST_LINES} more`] : lines;
    return shown.map((line, at) => h("text", { key: at, class: at === 0 ? "name" : "chained", x: PAD + 4, y: PAD + 13 + at * LINE },
      fit(at === 0 ? line : `→ ${line}`, WIDTH - 2 * PAD - (at === 0 && this.live ? 44 : 4), at === 0 ? BOLD : FONT)));
  }

  figuresOf(live, height) {
    const top = height - FIGURES - PAD + 22;
    const right = WIDTH - PAD;
    const cell = (name, value, column, row) => h("text", { key: name, class: "figure", x: column ? WIDTH / 2 + 8 : PAD + 4, y: top + row * 18 }, h("tspan", { class: "what" }, `${name} `), value);
    const part = (kind, start, share) => h("rect", { key: kind, class: kind, x: PAD + 4 + start * (right - PAD - 4), y: height - PAD - 5, width: Math.max(0, share * (right - PAD - 4)), height: 6 });
    const busy = live.busy ?? 0;
    const held = live.backPressured ?? 0;
    return [
      cell("in", format.rate(live.in), 0, 0), cell("out", format.rate(live.out), 1, 0),
      cell("behind", live.lag === undefined ? "–" : format.duration(live.lag), 0, 1), cell("state", format.bytes(live.state), 1, 1),
      h("g", { class: "load-bar" }, part("rest", 0, 1), part("idle", 0, live.busy === undefined ? 0 : 1), part("busy", 0, Math.min(busy, 1)), part("held", Math.min(busy, 1), Math.max(0, Math.min(held, 1 - busy)))),
    ];
  }

  /** The vertex that Tab reaches: the one that had the focus last, or the first from the left. */
  entry() {
    const boxes = [...this.placed.nodes.values()];
    const [first] = boxes.sort((a, b) => a.layer - b.layer || a.order - b.order); // plans may begin with the sinks
    return this.placed.nodes.has(this.focused) ? this.focused : first?.id;
  }

  focus(id, isByKeyboard) {
    this.focused = id;
    if (isByKeyboard) this.viewport.reveal(this.placed.nodes.get(id)); // under a pointer nothing may move away
    this.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { ArrowRight: 1, ArrowLeft: -1 };
    const steps = { "+": () => this.viewport.zoom(1.25), "-": () => this.viewport.zoom(1 / 1.25), 0: () => this.viewport.fit() };
    const id = event.target.dataset?.vertex;
    if (steps[event.key]) steps[event.key]();
    else if (id && (event.key === "Enter" || event.key === " ")) this.choose(id);
    else if (id && event.shiftKey && event.key.startsWith("Arrow")) this.viewport.pan(...{ ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key]);
    else if (id && moves[event.key]) this.go(this.along(id, moves[event.key]));
    else if (id && (event.key === "ArrowUp" || event.key === "ArrowDown")) this.go(this.beside(id, event.key === "ArrowUp" ? -1 : 1));
    else return;
    event.preventDefault();
  }

  go(id) {
    if (id) this.svg.querySelector(`[data-vertex="${CSS.escape(id)}"]`)?.focus({ preventScroll: true });
  }

  along(id, direction) {
    if (direction < 0) return this.nodes.find((node) => node.id === id)?.inputs[0]?.id;
    return this.nodes.find(({ inputs }) => inputs.some((input) => input.id === id))?.id;
  }

  beside(id, direction) {
    const { layer, order } = this.placed.nodes.get(id);
    const others = [...this.placed.nodes.values()].filter((box) => box.layer === layer && (box.order - order) * direction > 0);
    return others.sort((a, b) => (a.order - b.order) * direction)[0]?.id;
  }
}

/** By colour: who waits for others is violet, who works without pause goes from green over amber to red. */
function loadClass({ busy, backPressured }) {
  if ((backPressured ?? 0) > 0.5) return "held";
  if (busy === undefined) return "unknown";
  if (busy > 0.9) return "hot";
  return busy > 0.6 ? "warm" : "calm";
}

function describe({ lines, parallelism }, live) {
  return [lines.join(", then "), live.status ?? "", `parallelism ${parallelism}`, `in ${format.rate(live.in)}`, `out ${format.rate(live.out)}`,
    `busy ${format.percent(live.busy)}`, `back-pressured ${format.percent(live.backPressured)}`].join("; ");
}

function curve(points) {
  const d = points.map(({ x, y }, at) => {
    if (at === 0) return `M${x.toFixed(1)} ${y.toFixed(1)}`;
    const before = points[at - 1];
    const bend = Math.max(24, Math.abs(x - before.x) / 2) * (x < before.x ? -1 : 1);
    return `C${(before.x + bend).toFixed(1)} ${before.y.toFixed(1)} ${(x - bend).toFixed(1)} ${y.toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
  const [a, b] = points.slice(-2); // the label stands where the arrow arrives, next to who reads
  return [{ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 }, d];
}
