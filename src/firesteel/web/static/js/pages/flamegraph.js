// Where the time of a vertex goes: samples of its tasks' stacks as a flame graph.

import { get, ServerError } from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { rewrite } from "../router.js";
import { choice, message, section, waiting } from "../parts/controls.js";
import { flame } from "../parts/flame.js";
import { chainOf } from "../parts/text.js";
import { jobPage } from "./job_frame.js";

/** What Flink says with a time below zero. */
const SENTENCES = {
  [-1]: "The tasks have ended: there is nothing that could be sampled.",
  [-2]: "Flame graphs are switched off, by the option rest.flamegraph.enabled.",
  [-3]: "The tasks are being sampled; this takes some seconds.",
};
const KINDS = [["full", "All"], ["on_cpu", "Working"], ["off_cpu", "Waiting"]];

export function flamegraph(view) {
  const state = { vertex: view.query.get("vertex") ?? undefined, kind: view.query.get("kind") ?? "full", subtask: view.query.get("subtask") ?? "", answer: undefined, sentence: undefined, isMissing: false, isWaiting: false, flame: { filter: "" } };
  const page = jobPage(view, "flamegraph", { load: (job, signal) => load(job, state, signal).then(() => state.isWaiting && setTimeout(page.ask, 1500)), body: (job) => content(job, state, { change, redraw: () => page.draw() }), every: 3 });
  const change = (changes) => {
    Object.assign(state, changes, { answer: undefined, sentence: undefined, isMissing: false, flame: { filter: state.flame.filter } });
    rewrite(`/jobs/${view.params.jid}/flamegraph`, { vertex: state.vertex, kind: state.kind, subtask: state.subtask });
    page.draw();
    page.ask();
  };
}

async function load(job, state, signal) {
  state.vertex ??= job.vertices?.[0]?.id;
  state.isWaiting = false;
  if (state.isMissing) return;
  const subtask = state.subtask === "" ? "" : `&subtaskindex=${state.subtask}`;
  try {
    const { data, endTimestamp } = await get(`/jobs/${job.jid}/vertices/${state.vertex}/flamegraph?type=${state.kind}${subtask}`, signal);
    Object.assign(state, { answer: data, at: endTimestamp, isWaiting: endTimestamp === -3, sentence: data ? undefined : (SENTENCES[endTimestamp] ?? SENTENCES[-3]) });
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    Object.assign(state, { sentence: error.message, isMissing: error.isMissing });
  }
}

function content(job, state, { change, redraw }) {
  const vertex = job.vertices?.find(({ id }) => id === state.vertex);
  const subtasks = Array.from({ length: vertex?.parallelism ?? 0 }, (_, at) => String(at));
  const tools = h("div", { class: "panel-tools" },
    h("select", { "aria-label": "vertex", value: state.vertex, onChange: (event) => change({ vertex: event.target.value, subtask: "" }) },
      (job.vertices ?? []).map(({ id, name }) => h("option", { key: id, value: id, selected: id === state.vertex }, chainOf(name).join(" → ").slice(0, 80)))),
    h("select", { "aria-label": "subtask", value: state.subtask, onChange: (event) => change({ subtask: event.target.value }) },
      h("option", { key: "all", value: "" }, "all subtasks"), subtasks.map((at) => h("option", { key: at, value: at, selected: at === state.subtask }, `subtask ${at}`))),
    choice("samples", KINDS, state.kind, (kind) => change({ kind })));
  return section("Flame graph", { tools },
    state.answer ? [h("p", { class: "quiet-text" }, `${format.plural(state.answer.value ?? 0, "sample")}, until ${format.moment(state.at)}. Click a frame to look closer, the lowest line to go back.`), flame(state.answer, state.flame, redraw)]
      : state.sentence ? message(state.sentence) : waiting(8));
}
