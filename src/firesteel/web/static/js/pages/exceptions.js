// What went wrong: the newest failure first, its traceback readable, and all earlier ones; hosts that were lost and are back.

import { get, getIfThere } from "../api.js";
import { say } from "../dialog.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { badge, message, section, table, waiting } from "../parts/controls.js";
import { traceback } from "../parts/traceback.js";
import { jobPage } from "./job_frame.js";

export function exceptions(view) {
  const state = { answer: undefined, hosts: undefined, most: 20, whole: new Set(), order: {} };
  const page = jobPage(view, "exceptions", {
    load: async (job, signal) => {
      [state.answer, state.hosts] = await Promise.all([
        get(`/jobs/${job.jid}/exceptions?maxExceptions=${state.most}`, signal),
        getIfThere(`/jobs/${job.jid}/hosts`, signal),
      ]);
    },
    body: () => content(state, page),
  });
}

function content(state, page) {
  if (!state.answer) return waiting(8);
  const entries = entriesOf(state.answer);
  const watched = state.hosts ? hosts(state, page) : null;
  if (!entries.length) return [section("Exceptions", {}, message("Nothing has gone wrong.", "good")), watched];
  const more = () => {
    state.most *= 5;
    page.ask();
  };
  const isCut = state.answer.exceptionHistory?.truncated ?? state.answer.truncated;
  return [
    section("Newest failure", {}, failure(entries[0], state, page, "newest")),
    entries.length > 1 ? section(`Earlier failures (${entries.length - 1})`, {}, entries.slice(1).map((entry, at) => earlier(entry, state, page, `${entry.timestamp} ${at}`))) : null,
    isCut ? h("p", { key: "more" }, h("button", { onClick: more }, "Show more")) : null,
    watched,
  ];
}

/** Where tasks run and have run: who was heard when, who was lost, and who is back. */
function hosts(state, page) {
  const { heartbeat, now } = state.hosts;
  const ago = (at) => (at === null ? "" : `${format.duration(now - at)} ago`);
  return section("Hosts", {},
    table({ label: "Hosts", rows: state.hosts.hosts, keyOf: ({ host }) => host, state: state.order, redraw: page.draw, empty: "No task has run yet.", columns: [
      { name: "Host", value: ({ host }) => host },
      { name: "State", value: ({ status }) => status, cell: ({ status }) => badge(status) },
      { name: "Tasks", value: ({ tasks }) => tasks, number: true },
      { name: "Last heard", value: (row) => row.timeSinceLastHeartbeat, cell: (row) => (row.timeSinceLastHeartbeat === null ? "" : `${format.duration(row.timeSinceLastHeartbeat)} ago`), number: true },
      { name: "Lost", value: ({ losses }) => losses, cell: ({ losses, lost, reason }) => h("span", { title: reason ?? "" }, losses ? `${format.plural(losses, "time")}, ${ago(lost)}` : "never") },
      { name: "Back", value: ({ returned }) => returned, cell: ({ returned }) => ago(returned) },
    ] }),
    heartbeat ? h("p", { class: "quiet-text" }, `A sign of life is due every ${format.duration(heartbeat.interval)}; who gives none for ${format.duration(heartbeat.timeout)} is lost.`) : null);
}

/** Newest first; servers that keep no history give the root exception only. */
function entriesOf(answer) {
  const entries = [...(answer.exceptionHistory?.entries ?? [])].sort((a, b) => b.timestamp - a.timestamp);
  const root = answer["root-exception"];
  return entries.length || !root ? entries : [{ exceptionName: root.split("\n")[0], stacktrace: root, timestamp: answer.timestamp }];
}

function earlier(entry, state, page, id) {
  return h("details", { key: id },
    h("summary", {}, h("time", {}, format.moment(entry.timestamp)), h("strong", {}, nameOf(entry)), h("span", {}, entry.taskName ?? "")),
    failure(entry, state, page, id));
}

const nameOf = ({ exceptionName }) => (exceptionName ?? "failure").split(".").at(-1);

function failure(entry, state, page, id) {
  const others = entry.concurrentExceptions ?? [];
  const labels = Object.entries(entry.failureLabels ?? {});
  return h("article", { class: "failure", key: id },
    h("header", {},
      h("strong", { class: "bad" }, nameOf(entry)),
      h("time", {}, format.moment(entry.timestamp)),
      entry.taskName ? h("span", {}, "in ", h("b", {}, entry.taskName)) : h("span", {}, "of the whole job"),
      where(entry),
      labels.map(([name, value]) => h("span", { class: "badge off", key: name }, `${name}: ${value}`)),
      h("button", { class: "quiet", onClick: () => copy(entry.stacktrace) }, "Copy")),
    traceback(entry.stacktrace ?? "", state.whole.has(id), () => { state.whole.add(id); page.draw(); }),
    others.length ? h("details", {}, h("summary", {}, `${format.plural(others.length, "failure")} at the same time`), others.map((each, at) => failure(each, state, page, `${id}/${at}`))) : null);
}

function where({ endpoint, taskManagerId }) {
  if (!endpoint) return null;
  return taskManagerId ? h("a", { href: `#/taskmanagers/${encodeURIComponent(taskManagerId)}` }, endpoint) : h("span", {}, endpoint);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("copied");
  } catch {
    say("the browser does not allow copying here");
  }
}
