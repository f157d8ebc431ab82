// One vertex in a drawer at the side: its subtasks with their skew, watermarks, back pressure, accumulators.

import { get, getIfThere, ServerError } from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { link } from "../router.js";
import { badge, bar, choice, load, message, table, waiting } from "../parts/controls.js";
import { skewStrip } from "../parts/skew.js";
import { chainOf } from "../parts/text.js";

const TABS = [["subtasks", "Subtasks"], ["watermarks", "Watermarks"], ["backpressure", "Back pressure"], ["accumulators", "Accumulators"], ["taskmanagers", "Task managers"]];

/** Ask for what the open tab shows; an error of the server is shown in the tab. */
export async function loadDrawer(job, state, signal) {
  const { vertex, tab } = state;
  const path = `/jobs/${job.jid}/vertices/${vertex}`;
  try {
    const [answer, pressure] = await LOADERS[tab](path, signal);
    if (state.vertex === vertex) state.drawer = { ...state.drawer, [tab]: answer, pressure: pressure ?? state.drawer.pressure, error: undefined };
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    state.drawer = { ...state.drawer, error };
  }
}

const LOADERS = {
  subtasks: (path, signal) => Promise.all([get(path, signal), getIfThere(`${path}/backpressure`, signal)]),
  watermarks: (path, signal) => Promise.all([get(`${path}/watermarks`, signal)]),
  backpressure: (path, signal) => Promise.all([get(`${path}/backpressure`, signal)]),
  accumulators: (path, signal) => Promise.all([get(`${path}/subtasks/accumulators`, signal)]),
  taskmanagers: (path, signal) => Promise.all([get(`${path}/taskmanagers`, signal)]),
};

export function drawer(job, state, act) {
  const vertex = job.vertices?.find(({ id }) => id === state.vertex);
  const plan = job.plan?.nodes?.find(({ id }) => id === state.vertex);
  const data = state.drawer[state.tab];
  const lines = chainOf(vertex?.name ?? state.vertex, plan?.description);
  return h("aside", { class: "drawer", key: "drawer", "aria-labelledby": "vertex-title" },
    h("div", { class: "drawer-head" },
      h("h2", { id: "vertex-title", tabindex: -1, title: lines[0] }, lines[0] ?? state.vertex),
      h("button", { class: "quiet", onClick: act.close, "aria-label": "Close (Escape)", title: "Close (Escape)" }, "✕")),
    h("ol", { class: "chain" }, lines.slice(1).map((line, at) => h("li", { key: at }, line))),
    h("p", { class: "drawer-facts" },
      vertex ? badge(vertex.status) : null,
      h("span", {}, `parallelism ${vertex?.parallelism ?? "–"} of at most ${vertex?.maxParallelism ?? "–"}`),
      h("a", { href: link(`/jobs/${job.jid}/metrics`, { vertex: state.vertex }) }, "Metrics"),
      h("a", { href: link(`/jobs/${job.jid}/flamegraph`, { vertex: state.vertex }) }, "Flame graph")),
    choice("What to show", TABS, state.tab, (tab) => act.choose(state.vertex, tab)),
    state.drawer.error ? message(state.drawer.error.message, "bad") : data ? SHOWN[state.tab](data, state, act) : waiting(6));
}

const SHOWN = { subtasks, watermarks, backpressure: pressure, accumulators, taskmanagers };
const sorting = { subtasks: {}, watermarks: {}, pressure: {}, accumulators: {}, taskmanagers: {} };

const FIGURES = [
  ["Records in", "read-records", format.count], ["Records out", "write-records", format.count],
  ["Bytes in", "read-bytes", format.bytes], ["Bytes out", "write-bytes", format.bytes],
];

function subtasks({ subtasks: rows = [] }, state, { redraw }) {
  const shares = new Map((state.drawer.pressure?.subtasks ?? []).map((each) => [each.subtask, { busy: each.busyRatio, backPressured: each.ratio, idle: each.idleRatio }]));
  const busy = rows.map(({ subtask }) => format.number(shares.get(subtask)?.busy));
  const figures = FIGURES.filter(([, key]) => rows.some(({ metrics }) => metrics?.[key] > 0)); // a source reads nothing, a sink writes nothing
  const most = Object.fromEntries(figures.map(([, key]) => [key, Math.max(1, ...rows.map(({ metrics }) => metrics?.[key] ?? 0))]));
  const figure = ([name, key, show]) => ({ name, value: ({ metrics }) => metrics?.[key], cell: ({ metrics }) => bar((metrics?.[key] ?? 0) / most[key], show(metrics?.[key]), "plain", format.exact(metrics?.[key])) });
  return h("div", { class: "subtasks" },
    h("div", { class: "strips" },
      figures.map(([label, key, show]) => skewStrip({ label, show, values: rows.map(({ metrics }) => metrics?.[key]) })),
      busy.some((share) => share > 0) ? skewStrip({ label: "Busy", show: format.percent, values: busy }) : null),
    table({ label: "Subtasks", rows, keyOf: ({ subtask }) => subtask, state: sorting.subtasks, redraw, columns: [
      { name: "#", value: ({ subtask }) => subtask, number: true },
      { name: "State", value: ({ status }) => status, cell: ({ status }) => badge(status) },
      { name: "Load", value: ({ subtask }) => shares.get(subtask)?.busy, cell: ({ subtask }) => load(shares.get(subtask) ?? {}) },
      ...figures.map(figure),
      { name: "Attempt", value: ({ attempt }) => attempt, number: true },
      { name: "Where", value: ({ endpoint }) => endpoint, cell: (row) => place(row) },
      { name: "Duration", value: ({ duration }) => duration, cell: ({ duration }) => format.duration(duration), number: true },
    ] }));
}

function place(row) {
  const id = row["taskmanager-id"];
  const text = row.endpoint ?? row.host ?? id ?? "–";
  return id && !id.startsWith("(") ? h("a", { href: `#/taskmanagers/${encodeURIComponent(id)}` }, text) : text;
}

function watermarks(rows, _state, { redraw }) {
  const now = Date.now();
  const list = rows.map(({ id, value }) => ({ subtask: Number(id.split(".")[0]), value: format.number(value) }));
  const lags = list.map(({ value }) => format.watermarkLag(value, now));
  const most = Math.max(1, ...lags.filter(Number.isFinite));
  return h("div", {},
    list.length > 1 ? h("div", { class: "strips" }, skewStrip({ label: "Behind now", show: format.duration, values: lags })) : null,
    table({ label: "Watermarks", rows: list, keyOf: ({ subtask }) => subtask, state: sorting.watermarks, redraw, empty: "This vertex has no watermarks.", columns: [
      { name: "#", value: ({ subtask }) => subtask, number: true },
      { name: "Watermark", value: ({ value }) => value, cell: ({ value }) => format.watermark(value) },
      { name: "Behind now", value: ({ value }) => format.watermarkLag(value, now), cell: ({ value }) => {
        const lag = format.watermarkLag(value, now);
        return lag === undefined ? "–" : bar(lag / most, format.duration(lag));
      } },
    ] }));
}

function pressure(answer, _state, { redraw }) {
  const rows = answer.subtasks ?? [];
  const share = (name, key, kind) => ({ name, value: (row) => row[key], cell: (row) => bar(row[key], format.percent(format.number(row[key])), kind) });
  return h("div", {},
    h("p", {}, "The whole vertex: ", badge(answer.backpressureLevel ?? answer["backpressure-level"] ?? "not measured")),
    table({ label: "Back pressure", rows, keyOf: ({ subtask }) => subtask, state: sorting.pressure, redraw, empty: "Nothing measured yet.", columns: [
      { name: "#", value: ({ subtask }) => subtask, number: true },
      share("Back-pressured", "ratio", "held"), share("Busy", "busyRatio", "busy"), share("Idle", "idleRatio", "idle"),
      { name: "Level", value: (row) => row["backpressure-level"], cell: (row) => badge(row["backpressure-level"] ?? row.backpressureLevel) },
    ] }));
}

function accumulators(answer, _state, { redraw }) {
  const rows = (answer.subtasks ?? []).flatMap((each) => (each["user-accumulators"] ?? []).map((one) => ({ ...one, subtask: each.subtask })));
  return table({ label: "Accumulators", rows, keyOf: ({ subtask, name }) => `${subtask} ${name}`, state: sorting.accumulators, redraw, empty: "This vertex has no accumulators.", columns: [
    { name: "#", value: ({ subtask }) => subtask, number: true },
    { name: "Name", value: ({ name }) => name },
    { name: "Type", value: ({ type }) => type },
    { name: "Value", value: ({ value }) => format.number(value) ?? value, cell: ({ value }) => String(value), number: true },
  ] });
}

function taskmanagers(answer, _state, { redraw }) {
  return table({ label: "Task managers", rows: answer.taskmanagers ?? [], keyOf: (row) => row["taskmanager-id"], state: sorting.taskmanagers, redraw, columns: [
    { name: "Where", value: ({ endpoint }) => endpoint, cell: (row) => place(row) },
    { name: "State", value: ({ status }) => status, cell: ({ status }) => badge(status) },
    ...FIGURES.map(([name, key, show]) => ({ name, value: ({ metrics }) => metrics?.[key], cell: ({ metrics }) => show(metrics?.[key]), number: true })),
  ] });
}
