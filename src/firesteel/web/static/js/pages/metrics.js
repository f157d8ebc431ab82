// Metrics of a vertex as live charts: pick some, see every subtask as a line.

import { get, metricValues, ServerError } from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { rewrite } from "../router.js";
import { choice, message, section, waiting } from "../parts/controls.js";
import { beginning, chart } from "../parts/chart.js";
import { History } from "../parts/history.js";
import { chainOf } from "../parts/text.js";
import { jobPage } from "./job_frame.js";

const DEFAULTS = [["numRecordsInPerSecond", "numRecordsIn"], ["numRecordsOutPerSecond", "numRecordsOut"], ["busyTimeMsPerSecond"]]; // the first of each
const SPANS = [[60_000, "1 min"], [300_000, "5 min"], [900_000, "15 min"]];
const MOST_LINES = 16;
const histories = new Map(); // "job vertex" -> History, so that charts go on when one comes back to them

export function metrics(view) {
  const state = {
    vertex: view.query.get("vertex") ?? undefined, names: undefined, sentence: undefined, filter: "", hover: {}, width: 600,
    chosen: view.query.get("metrics")?.split(",").filter(Boolean), span: Number(view.query.get("span")) || SPANS[1][0],
  };
  const page = jobPage(view, "metrics", { load: (job, signal) => load(job, state, signal), body: (job) => content(job, state, act) });
  const change = (changes) => {
    Object.assign(state, changes);
    rewrite(`/jobs/${view.params.jid}/metrics`, { vertex: state.vertex, metrics: state.chosen?.join(","), span: state.span });
    page.draw();
  };
  const act = {
    redraw: page.draw,
    span: (span) => change({ span }),
    vertex: (vertex) => { change({ vertex, names: undefined, chosen: undefined }); page.ask(); },
    filter: (filter) => { state.filter = filter; page.draw(); },
    toggle: (name) => { change({ chosen: state.chosen.includes(name) ? state.chosen.filter((each) => each !== name) : [...state.chosen, name] }); page.ask(); },
    measure: (element) => new ResizeObserver(([{ contentRect }]) => { state.width = Math.max(280, Math.floor(contentRect.width)); page.draw(); }).observe(element),
  };
}

async function load(job, state, signal) {
  state.vertex ??= job.vertices?.[0]?.id;
  if (!state.vertex) return;
  const path = `/jobs/${job.jid}/vertices/${state.vertex}/metrics`;
  try {
    state.names ??= await namesOf(path, signal);
    state.chosen ??= DEFAULTS.map((names) => names.find((name) => state.names.has(name))).filter(Boolean);
    const wanted = state.chosen.flatMap((name) => state.names.get(name) ?? []);
    const history = historyOf(job, state);
    if (wanted.length) history.add(Date.now(), await metricValues(path, wanted, signal));
    state.sentence = undefined;
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    state.sentence = error.message;
  }
}

function historyOf(job, { vertex }) {
  const key = `${job.jid} ${vertex}`;
  if (!histories.has(key)) histories.set(key, new History(SPANS.at(-1)[0]));
  return histories.get(key);
}

/** Names without the number of the subtask, each with the full names of all subtasks in order. */
async function namesOf(path, signal) {
  const found = new Map();
  for (const { id } of await get(path, signal)) {
    const [, subtask, name] = /^(\d+)\.(.+)$/.exec(id) ?? [];
    if (name === undefined) continue;
    if (!found.has(name)) found.set(name, []);
    found.get(name)[Number(subtask)] = id;
  }
  return new Map([...found].sort(([a], [b]) => a.localeCompare(b)).map(([name, ids]) => [name, ids.filter(Boolean)]));
}

function content(job, state, act) {
  if (job["end-time"] > 0 && !state.names?.size) return section("Metrics", {}, message("The job has ended; metrics are those of running tasks."));
  const tools = h("div", { class: "panel-tools" },
    h("select", { "aria-label": "vertex", value: state.vertex, onChange: (event) => act.vertex(event.target.value) },
      (job.vertices ?? []).map(({ id, name }) => h("option", { key: id, value: id, selected: id === state.vertex }, chainOf(name).join(" → ").slice(0, 80)))),
    choice("span of time", SPANS, state.span, act.span));
  return [
    h("div", { class: "metrics-layout", key: "metrics" },
      section("Metrics", { tools, className: "charts" },
        h("div", { class: "chart-list", ref: act.measure }, state.sentence ? message(state.sentence, "bad") : charts(job, state, act))),
      section("Pick", { className: "picker" }, picker(state, act))),
  ];
}

function charts(job, state, act) {
  if (!state.names) return waiting(6);
  if (!state.chosen.length) return message("Pick a metric to see it as a chart.");
  const to = Date.now();
  const history = historyOf(job, state);
  return state.chosen.map((name) => {
    const ids = state.names.get(name) ?? [];
    const series = ids.slice(0, MOST_LINES).map((id) => ({ name: id.split(".")[0], points: history.points(id) }));
    return h("article", { class: "chart-card", key: name },
      h("header", {}, h("h3", {}, name), ids.length > MOST_LINES ? h("small", {}, `the first ${MOST_LINES} of ${ids.length} subtasks`) : null,
        h("button", { class: "quiet", "aria-label": `remove ${name}`, onClick: () => act.toggle(name) }, "✕")),
      chart({ label: name, series, from: beginning(series, to, state.span), to, width: state.width, show: unitOf(name), limits: limitsOf(name), hover: state.hover, redraw: act.redraw }));
  });
}

/** Shares of the time have an axis from nothing to all of it. */
const limitsOf = (name) => (/MsPerSecond$/.test(name) ? [0, 1000] : undefined);

/** How values of a metric are written, by its name. */
export function unitOf(name) {
  if (/watermark$/i.test(name)) return format.watermark;
  if (/MsPerSecond$/.test(name)) return (value) => format.percent(value / 1000);
  if (/(Time|Lag|Duration|latency)$/i.test(name)) return format.duration;
  if (/bytes|memory|usedsize|Size$/i.test(name) && !/PerSecond|queue|batch/i.test(name)) return format.bytes;
  if (/bytes.*PerSecond/i.test(name)) return (value) => `${format.bytes(value)}/s`;
  return /PerSecond$/.test(name) ? format.rate : format.count;
}

function picker(state, act) {
  const wanted = state.filter.toLowerCase();
  const names = [...(state.names?.keys() ?? [])].filter((name) => name.toLowerCase().includes(wanted));
  return [
    h("input", { type: "search", class: "filter", placeholder: "filter", "aria-label": "filter metrics", value: state.filter, onInput: (event) => act.filter(event.target.value) }),
    state.names ? h("ul", { class: "picks" }, names.slice(0, 400).map((name) => h("li", { key: name }, h("label", { title: name },
      h("input", { type: "checkbox", checked: state.chosen.includes(name), onChange: () => act.toggle(name) }), h("span", {}, name))))) : waiting(8),
  ];
}
