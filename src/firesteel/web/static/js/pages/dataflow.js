// The page of a job that one opens first: its graph, the same vertices as a table, and the drawer of one vertex.

import { h } from "../dom.js";
import * as format from "../format.js";
import { link, rewrite } from "../router.js";
import { badge, load, section, table } from "../parts/controls.js";
import { Graph, nodesOfPlan } from "../parts/graph.js";
import { drawer, loadDrawer } from "./vertex.js";
import { jobPage } from "./job_frame.js";
import { vertexFigures } from "./vertex_figures.js";

export function dataflow(view) {
  const path = `/jobs/${view.params.jid}/graph`;
  const state = { graph: undefined, figures: new Map(), order: {}, vertex: view.query.get("vertex") ?? undefined, tab: view.query.get("tab") ?? "subtasks", drawer: {} };
  const page = jobPage(view, "graph", {
    load: async (job, signal) => {
      state.figures = await vertexFigures(job, signal, state.figures);
      if (state.vertex) await loadDrawer(job, state, signal);
    },
    body: (job) => body(job, state, { choose, close, redraw: () => page.draw() }),
  });
  const sync = () => rewrite(path, { vertex: state.vertex, tab: state.vertex && state.tab });
  const choose = (vertex, tab = state.tab) => {
    if (vertex !== state.vertex) state.drawer = {};
    Object.assign(state, { vertex, tab, opener: state.opener ?? document.activeElement });
    sync();
    page.draw();
    document.getElementById("vertex-title")?.focus({ preventScroll: true });
    page.ask();
  };
  const close = () => {
    const { opener } = state;
    Object.assign(state, { vertex: undefined, opener: undefined });
    sync();
    page.draw();
    opener?.focus?.({ preventScroll: true });
  };
  const onKey = (event) => event.key === "Escape" && state.vertex && !document.querySelector("dialog[open]") && close();
  addEventListener("keydown", onKey, { signal: view.signal });
}

function body(job, state, act) {
  const nodes = nodesOfPlan(job.plan);
  queueMicrotask(() => state.graph?.update(nodes, state.figures, state.vertex));
  const mount = (element) => (state.graph = new Graph(element, { choose: act.choose }));
  return [
    h("div", { class: "graph-panel panel", key: "graph", ref: mount }),
    h("p", { class: "key", key: "key" },
      h("i", { class: "busy" }), "busy ", h("i", { class: "held" }), "back-pressured ", h("i", { class: "idle" }), "idle ",
      h("span", {}, "drag to move, Ctrl and wheel to zoom")),
    section("Vertices", {}, vertexTable(job, state, act)),
    state.vertex ? drawer(job, state, act) : null,
  ];
}

function vertexTable(job, state, act) {
  const live = (vertex) => state.figures.get(vertex.id) ?? {};
  const at = new Map((job.vertices ?? []).map(({ id }, index) => [id, index]));
  const columns = [
    { name: "Name", value: ({ id }) => at.get(id), cell: (vertex) => h("button", { class: "link", onClick: () => act.choose(vertex.id) }, vertex.name.replaceAll(" -> ", " → ")) },
    { name: "State", value: ({ status }) => status, cell: ({ status }) => badge(status) },
    { name: "∥", value: ({ parallelism }) => parallelism, number: true },
    { name: "Load", value: (vertex) => live(vertex).busy, cell: (vertex) => load(live(vertex)) },
    { name: "In", value: (vertex) => live(vertex).in, cell: (vertex) => format.rate(live(vertex).in), number: true },
    { name: "Out", value: (vertex) => live(vertex).out, cell: (vertex) => format.rate(live(vertex).out), number: true },
    { name: "Records in", value: ({ metrics }) => metrics?.["read-records"], cell: ({ metrics }) => format.count(metrics?.["read-records"]), number: true },
    { name: "Records out", value: ({ metrics }) => metrics?.["write-records"], cell: ({ metrics }) => format.count(metrics?.["write-records"]), number: true },
    { name: "Watermark", value: (vertex) => live(vertex).watermark, cell: (vertex) => format.watermark(live(vertex).watermark), number: true },
    { name: "State size", value: (vertex) => live(vertex).state, cell: (vertex) => format.bytes(live(vertex).state), number: true },
    { name: "More", cell: ({ id }) => h("a", { href: link(`/jobs/${job.jid}/metrics`, { vertex: id }) }, "metrics") },
  ];
  return table({ label: "Vertices", columns, rows: job.vertices ?? [], keyOf: ({ id }) => id, state: state.order, redraw: act.redraw,
    rowProps: ({ id }) => ({ class: id === state.vertex ? "chosen" : null }) });
}
