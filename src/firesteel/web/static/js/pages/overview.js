// The first page: what there is room for, what runs, what has ended.

import { get, newest } from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { badge, bar, message, section, table, waiting } from "../parts/controls.js";

const ENDED = new Set(["FINISHED", "CANCELED", "FAILED"]);

export function overview(view) {
  const state = { cluster: newest("/overview"), jobs: newest("/jobs/overview")?.jobs, running: {}, ended: { by: "Ended", down: true }, error: undefined };
  const draw = () => view.show(h("h1", { class: "unseen" }, "Overview"), content(state, draw));
  view.title("Overview");
  view.poll(async (signal) => {
    const [cluster, { jobs }] = await Promise.all([get("/overview", signal), get("/jobs/overview", signal)]);
    Object.assign(state, { cluster, jobs, error: undefined });
    draw();
  }, { failed: (error) => { state.error = error; draw(); } });
  draw();
}

function content(state, draw) {
  if (state.error) return message(state.error.message, "bad");
  const running = state.jobs?.filter((job) => !ENDED.has(job.state));
  const ended = state.jobs?.filter((job) => ENDED.has(job.state));
  return [
    h("div", { class: "tiles", key: "tiles" }, tiles(state.cluster)),
    section("Running jobs", {}, running ? jobTable("Running jobs", running, state.running, draw, false) : waiting(3)),
    section("Completed jobs", {}, ended ? jobTable("Completed jobs", ended, state.ended, draw, true) : waiting(3)),
  ];
}

function tiles(cluster) {
  const total = cluster?.["slots-total"];
  const free = cluster?.["slots-available"];
  const tile = (name, value, more = null, href = null) => h(href ? "a" : "div", { class: "tile", key: name, href }, h("span", {}, name), h("strong", {}, value), more);
  const shown = (value) => (value === undefined ? "–" : format.exact(value));
  return [
    tile("Slots free", h("span", {}, shown(free), h("small", {}, ` of ${shown(total)}`)), bar(total ? (total - free) / total : 0, "", free === 0 && total ? "hot" : "plain", `${shown(total === undefined ? undefined : total - free)} in use`)),
    tile("Task managers", shown(cluster?.taskmanagers), null, "#/taskmanagers"),
    tile("Running", shown(cluster?.["jobs-running"])),
    tile("Finished", shown(cluster?.["jobs-finished"])),
    tile("Cancelled", shown(cluster?.["jobs-cancelled"])),
    tile("Failed", h("span", { class: cluster?.["jobs-failed"] ? "bad" : null }, shown(cluster?.["jobs-failed"]))),
  ];
}

function jobTable(label, rows, state, redraw, isOver) {
  const columns = [
    { name: "Name", value: ({ name }) => name, cell: (job) => h("a", { href: `#/jobs/${job.jid}` }, job.name) },
    { name: "State", value: (job) => job.state, cell: (job) => badge(job.state) },
    { name: "Started", value: (job) => job["start-time"], cell: (job) => format.moment(job["start-time"]) },
    isOver && { name: "Ended", value: (job) => job["end-time"], cell: (job) => format.moment(job["end-time"]) },
    { name: "Duration", value: (job) => job.duration, cell: (job) => format.duration(job.duration), number: true },
    { name: "Tasks", value: (job) => job.tasks?.total, cell: (job) => taskCounts(job.tasks) },
  ];
  const empty = isOver ? "No job has ended yet." : "No job runs now.";
  return table({ label, columns: columns.filter(Boolean), rows, state, redraw, empty, keyOf: (job) => job.jid });
}

/** How many tasks are in which state, as one strip and in words. */
function taskCounts(tasks = {}) {
  const counts = Object.entries(tasks).filter(([name, amount]) => name.toLowerCase() !== "total" && amount > 0);
  const all = counts.reduce((sum, [, amount]) => sum + amount, 0);
  const words = counts.map(([name, amount]) => `${amount} ${name.toLowerCase()}`).join(", ");
  return h("span", { class: "task-counts", title: words },
    h("span", { class: "task-strip", "aria-hidden": "true" }, counts.map(([name, amount]) => h("i", { key: name, class: name.toLowerCase(), style: { width: `${(amount / all) * 100}%` } }))),
    h("span", {}, words || "–"));
}
