// One checkpoint: what each vertex took for it, and each of its subtasks.

import { get, getIfThere, ServerError } from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { badge, bar, facts, message, section, table, waiting } from "../parts/controls.js";
import { kindOfCheckpoint } from "./checkpoints.js";
import { jobPage, vertexName } from "./job_frame.js";

export function checkpoint(view) {
  const state = { answer: undefined, sentence: undefined, open: view.query.get("vertex") ?? undefined, subtasks: undefined, order: {}, inner: {} };
  const path = `/jobs/${view.params.jid}/checkpoints/details/${view.params.id}`;
  const page = jobPage(view, "checkpoints", {
    load: async (_job, signal) => {
      if (isOver(state.answer) && (!state.open || state.subtasks)) return; // a checkpoint that is over does not change
      try {
        state.answer = await get(path, signal);
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        state.sentence = error.message;
      }
      if (state.open) state.subtasks = await getIfThere(`${path}/subtasks/${state.open}`, signal);
    },
    body: (job) => content(job, view, state, { open, redraw: () => page.draw() }),
  });
  const open = (vertex) => {
    Object.assign(state, { open: state.open === vertex ? undefined : vertex, subtasks: undefined });
    page.draw();
    page.ask();
  };
}

const isOver = (answer) => answer && answer.status !== "IN_PROGRESS";

function content(job, view, state, act) {
  const back = h("a", { href: `#/jobs/${job.jid}/checkpoints` }, "All checkpoints");
  if (!state.answer) return state.sentence ? section(`Checkpoint ${view.params.id}`, { tools: back }, message(state.sentence, "bad")) : waiting(8);
  const answer = state.answer;
  return [
    section(`Checkpoint ${view.params.id}`, { tools: back, key: "one" }, facts([
      ["State", badge(answer.status)],
      ["Kind", kindOfCheckpoint(answer)],
      ["Triggered", format.moment(answer.trigger_timestamp)],
      ["Duration", format.duration(answer.end_to_end_duration)],
      ["State size", format.bytes(answer.state_size)],
      ["Written", format.bytes(answer.checkpointed_size)],
      ["Acknowledged", `${answer.num_acknowledged_subtasks} of ${answer.num_subtasks}`],
      answer.external_path && ["Path", h("code", { class: "path" }, answer.external_path)],
      answer.failure_message && ["Failure", h("span", { class: "bad" }, answer.failure_message)],
    ])),
    section("Vertices", {}, vertices(job, answer, state, act)),
    state.open ? section(`Subtasks of ${vertexName(job, state.open)}`, { key: "subtasks" }, state.subtasks ? subtasks(state.subtasks, state, act) : waiting(4)) : null,
  ];
}

function vertices(job, answer, state, { open, redraw }) {
  const rows = Object.entries(answer.tasks ?? {}).map(([id, task]) => ({ ...task, vertex: id }));
  const most = Math.max(1, ...rows.map((row) => row.end_to_end_duration ?? 0));
  const largest = Math.max(1, ...rows.map((row) => row.state_size ?? 0));
  return table({ label: "Vertices", rows, state: state.order, redraw, keyOf: ({ vertex }) => vertex, rowProps: ({ vertex }) => ({ class: vertex === state.open ? "chosen" : null }), columns: [
    { name: "Name", value: ({ vertex }) => vertexName(job, vertex), cell: ({ vertex }) => h("button", { class: "link", "aria-expanded": String(vertex === state.open), onClick: () => open(vertex) }, vertexName(job, vertex)) },
    { name: "Acknowledged", value: (row) => row.num_acknowledged_subtasks, cell: (row) => `${row.num_acknowledged_subtasks} of ${row.num_subtasks}`, number: true },
    { name: "Duration", value: (row) => row.end_to_end_duration, cell: (row) => bar(row.end_to_end_duration / most, format.duration(row.end_to_end_duration)) },
    { name: "State size", value: (row) => row.state_size, cell: (row) => bar(row.state_size / largest, format.bytes(row.state_size)) },
    { name: "Written", value: (row) => row.checkpointed_size, cell: (row) => format.bytes(row.checkpointed_size), number: true },
    { name: "Last acknowledged", value: (row) => row.latest_ack_timestamp, cell: (row) => format.moment(row.latest_ack_timestamp) },
  ] });
}

const PARTS = [["delay", "waiting for the barrier", ({ start_delay }) => start_delay], ["align", "aligning", ({ alignment }) => alignment?.duration], ["sync", "snapshot", ({ checkpoint }) => checkpoint?.sync], ["async", "writing", ({ checkpoint }) => checkpoint?.async]];

function subtasks(answer, state, { redraw }) {
  const rows = answer.subtasks ?? [];
  const most = Math.max(1, ...rows.map((row) => row.end_to_end_duration ?? 0));
  const largest = Math.max(1, ...rows.map((row) => row.state_size ?? 0));
  const stacked = (row) => {
    const words = PARTS.map(([, name, value]) => `${name} ${format.duration(value(row))}`).join(", ");
    return h("span", { class: "stacked", title: words, role: "img", "aria-label": words }, PARTS.map(([kind, , value]) => h("i", { key: kind, class: kind, style: { width: `${Math.min(100, ((value(row) ?? 0) / most) * 100).toFixed(1)}%` } })));
  };
  return [
    h("p", { class: "key" }, PARTS.map(([kind, name]) => [h("i", { class: kind }), `${name} `])),
    table({ label: "Subtasks", rows, state: state.inner, redraw, keyOf: ({ index }) => index, columns: [
      { name: "#", value: ({ index }) => index, number: true },
      { name: "State", value: ({ status }) => status, cell: ({ status }) => badge(status) },
      { name: "Where the time went", value: (row) => row.end_to_end_duration, cell: stacked },
      { name: "Duration", value: (row) => row.end_to_end_duration, cell: (row) => format.duration(row.end_to_end_duration), number: true },
      { name: "State size", value: (row) => row.state_size, cell: (row) => bar(row.state_size / largest, format.bytes(row.state_size)) },
      { name: "Acknowledged", value: (row) => row.ack_timestamp, cell: (row) => format.moment(row.ack_timestamp) },
    ] }),
  ];
}
