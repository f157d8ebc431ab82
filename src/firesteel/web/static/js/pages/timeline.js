// When each vertex and each of its subtasks did what, on one axis of time.

import { getIfThere } from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { badge, kindOf, section } from "../parts/controls.js";
import { timeTicks } from "../parts/chart.js";
import { jobPage } from "./job_frame.js";

const STATES = ["CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "FAILED", "CANCELING", "CANCELED"];

export function timeline(view) {
  const state = { open: new Set(), times: new Map() };
  const page = jobPage(view, "timeline", {
    load: async (job, signal) => {
      const answers = await Promise.all([...state.open].map((id) => getIfThere(`/jobs/${job.jid}/vertices/${id}/subtasktimes`, signal)));
      [...state.open].forEach((id, at) => state.times.set(id, answers[at]));
    },
    body: (job) => section("Timeline", {}, content(job, state, toggle)),
  });
  const toggle = (id) => {
    if (!state.open.delete(id)) state.open.add(id);
    page.draw();
    page.ask();
  };
}

function content(job, state, toggle) {
  const until = job["end-time"] > 0 ? job["end-time"] : job.now;
  const started = job.vertices.map((vertex) => vertex["start-time"]).filter((at) => at > 0);
  const from = Math.min(job["start-time"], ...started);
  const share = (at) => `${(((at - from) / Math.max(1, until - from)) * 100).toFixed(2)}%`;
  return h("div", { class: "timeline" },
    h("div", { class: "timeline-row axis", "aria-hidden": "true" }, h("span", {}), h("div", { class: "track" },
      timeTicks(from, until, 4).map((at) => h("small", { key: at, style: { left: share(at) } }, format.clock(at))))),
    job.vertices.map((vertex) => [
      vertexRow(vertex, { until, share, isOpen: state.open.has(vertex.id), toggle }),
      state.open.has(vertex.id) ? subtaskRows(vertex, state.times.get(vertex.id), { until, share }) : null,
    ]));
}

function vertexRow(vertex, { until, share, isOpen, toggle }) {
  const from = vertex["start-time"];
  const to = vertex["end-time"] > 0 ? vertex["end-time"] : until;
  return h("div", { class: "timeline-row", key: vertex.id },
    h("button", { class: "link", "aria-expanded": String(isOpen), onClick: () => toggle(vertex.id), title: vertex.name }, vertex.name.replaceAll(" -> ", " → ")),
    h("div", { class: "track" }, from > 0 ? piece(vertex.status, from, to, share, `${vertex.name}: ${vertex.status.toLowerCase()} for ${format.duration(to - from)}`) : badge(vertex.status)));
}

function piece(state, from, to, share, title) {
  const right = `calc(${share(to)} - ${share(from)})`;
  return h("i", { key: `${state}${from}`, class: `piece ${state.toLowerCase()} ${kindOf(state)}`, title, role: "img", "aria-label": title, style: { left: share(from), width: right } },
    h("span", {}, state.toLowerCase()));
}

/** From the moments at which a subtask came into its states: a piece from each to the next. */
export function pieces(timestamps, until) {
  const reached = STATES.filter((state) => timestamps[state] > 0).map((state) => [state, timestamps[state]]).sort((a, b) => a[1] - b[1]);
  return reached.map(([state, from], at) => ({ state, from, to: reached[at + 1]?.[1] ?? until }));
}

function subtaskRows(vertex, times, { until, share }) {
  return (times?.subtasks ?? []).map(({ subtask, endpoint, timestamps }) =>
    h("div", { class: "timeline-row of-subtask", key: `${vertex.id} ${subtask}` },
      h("span", {}, `subtask ${subtask}`, h("small", {}, endpoint ? ` ${endpoint}` : "")),
      h("div", { class: "track" }, pieces(timestamps ?? {}, until).filter(({ from, to }) => to > from).map(({ state, from, to }) =>
        piece(state, from, to, share, `subtask ${subtask}: ${state.toLowerCase()} for ${format.duration(to - from)}`)))));
}
