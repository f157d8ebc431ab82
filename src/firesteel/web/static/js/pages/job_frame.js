// What all pages of a job have in common: its name and state, its buttons, its tabs.

import { get, getIfThere, newest } from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { badge, message, tabs, waiting } from "../parts/controls.js";
import { actions } from "./job_actions.js";

const TABS = [["graph", "Dataflow"], ["metrics", "Metrics"], ["checkpoints", "Checkpoints"], ["exceptions", "Exceptions"], ["timeline", "Timeline"], ["flamegraph", "Flame graph"], ["configuration", "Configuration"]];

/**
 * Opens a page of a job: keeps asking for the job and calls `load(job, signal)`, then draws `body(job)` below the tabs.
 *
 * Returns a function that draws again without asking.
 */
export function jobPage(view, tab, { load = async () => {}, body, every = 1 }) {
  const path = `/jobs/${encodeURIComponent(view.params.jid)}`;
  const state = { job: newest(path), error: undefined, hosts: undefined };
  const draw = () => {
    if (state.error) return view.show(message(state.error.message, "bad"), h("p", {}, h("a", { href: "#/" }, "All jobs")));
    view.title(state.job ? `${state.job.name}: ${TABS.find(([name]) => name === tab)[1]}` : "");
    view.show(frame(view, tab, state.job, draw, missingSlots(state.hosts)), h("div", { class: "job-body", key: tab }, state.job ? body(state.job) : waiting(6)));
  };
  const ask = view.poll(async (signal) => {
    state.job = await get(path, signal);
    state.error = undefined;
    if (!isStarting(state.job)) state.hosts = undefined;
    draw();
    if (isStarting(state.job)) state.hosts = await getIfThere(`${path}/hosts`, signal);
    await load(state.job, signal);
    draw();
  }, { every, failed: (error) => { state.error = error; draw(); } });
  queueMicrotask(draw); // later, because what the page draws with is defined behind this call
  return { draw, ask };
}

/** Whether tasks of it have not begun yet: it may be that they wait for slots. */
function isStarting(job) {
  const counts = job["status-counts"] ?? {};
  return job["end-time"] < 0 && ["CREATED", "SCHEDULED", "DEPLOYING"].some((state) => counts[state] > 0);
}

/** What a job waits for, as its hosts tell; null when it has all that it needs. */
export function missingSlots(hosts) {
  const missing = hosts?.waitingForSlots;
  if (!missing) return null;
  return message(`The job has waited for slots for ${format.duration(hosts.now - missing.since)}: it needs ${missing.needed}, and ${missing.available} are there.`, "bad");
}

function frame(view, tab, job, draw, problem) {
  const { jid } = view.params;
  const counts = Object.entries(job?.["status-counts"] ?? {}).filter(([, amount]) => amount > 0);
  return h("div", { class: "job-head", key: "head" },
    h("div", { class: "job-title" },
      h("h1", {}, job?.name ?? "…"), job ? badge(job.state) : null,
      h("div", { class: "job-actions" }, job ? actions(job, draw) : null)),
    h("p", { class: "job-facts" },
      h("code", { title: "job id" }, jid),
      h("span", {}, job ? `since ${format.moment(job["start-time"])}` : " "),
      h("span", {}, job ? (job["end-time"] > 0 ? `took ${format.duration(job.duration)}` : `for ${format.duration(job.duration)}`) : ""),
      h("span", {}, counts.length ? `vertices: ${counts.map(([state, amount]) => `${amount} ${state.toLowerCase()}`).join(", ")}` : "")),
    problem,
    tabs("Pages of the job", TABS.map(([name, label]) => [`#/jobs/${jid}/${name}`, label, name === tab])));
}

export const vertexName = (job, id) => (job?.vertices?.find((vertex) => vertex.id === id)?.name ?? id).replaceAll(" -> ", " → ");
