// Checkpoints: how many and how long, the history, and how they are configured.

import { get, getIfThere, post, finished, ServerError } from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { badge, bar, facts, message, section, table, waiting } from "../parts/controls.js";
import { jobPage } from "./job_frame.js";

export function checkpoints(view) {
  const state = { answer: undefined, config: undefined, history: { by: "Id", down: true }, summary: {} };
  const page = jobPage(view, "checkpoints", {
    load: async (job, signal) => {
      state.config ??= await getIfThere(`/jobs/${job.jid}/checkpoints/config`, signal);
      try {
        state.answer = await get(`/jobs/${job.jid}/checkpoints`, signal);
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        state.sentence = error.message;
      }
    },
    body: (job) => content(job, state, page),
  });
}

function content(job, state, page) {
  if (!state.answer) return state.sentence ? section("Checkpoints", {}, message(state.sentence)) : waiting(8);
  const { counts = {}, latest = {}, history = [], summary = {} } = state.answer;
  return [
    h("div", { class: "tiles", key: "tiles" }, [["Completed", counts.completed], ["In progress", counts.in_progress], ["Failed", counts.failed, "bad"], ["Restored", counts.restored], ["Triggered", counts.total]].map(([name, value, kind]) =>
      h("div", { class: "tile", key: name }, h("span", {}, name), h("strong", {}, h("span", { class: value ? kind : null }, format.exact(value)))))),
    section("Newest", { tools: job["end-time"] > 0 ? null : h("button", { onClick: () => trigger(job) }, "Take one now") }, newestOnes(job, latest)),
    section("History", {}, durations(job, history), historyTable(job, history, state.history, page.draw)),
    section("Summary", {}, summaryTable(summary, state.summary, page.draw)),
    state.config ? section("Configuration", {}, configuration(state.config)) : null,
  ];
}

function trigger(job) {
  confirm({
    title: "Take a checkpoint",
    text: "Besides those that the interval brings.",
    confirmLabel: "Take it",
    act: async () => {
      const answer = await post(`/jobs/${job.jid}/checkpoints`, { checkpointType: "CONFIGURED" });
      const { checkpointId } = await finished(`/jobs/${job.jid}/checkpoints/${answer["request-id"]}`);
      return `Checkpoint ${checkpointId ?? ""} is complete.`;
    },
  });
}

function newestOnes(job, latest) {
  const one = (checkpoint, at) => h("span", {}, h("a", { href: `#/jobs/${job.jid}/checkpoints/${checkpoint.id}` }, `#${checkpoint.id}`), ` at ${format.moment(at)}`);
  const told = (checkpoint) => checkpoint && h("span", {}, one(checkpoint, checkpoint.trigger_timestamp), `, ${format.duration(checkpoint.end_to_end_duration)}, ${format.bytes(checkpoint.state_size)}`,
    checkpoint.external_path ? h("code", { class: "path" }, checkpoint.external_path) : null);
  return facts([
    ["Completed", told(latest.completed) ?? "none yet"],
    ["Savepoint", told(latest.savepoint) ?? "none yet"],
    ["Failed", latest.failed ? h("span", {}, one(latest.failed, latest.failed.failure_timestamp), h("span", { class: "bad" }, `: ${latest.failed.failure_message ?? ""}`)) : "none"],
    ["Restored", latest.restored ? h("span", {}, `#${latest.restored.id} at ${format.moment(latest.restored.restore_timestamp)}`, latest.restored.external_path ? h("code", { class: "path" }, latest.restored.external_path) : null) : "none"],
  ]);
}

/** The newest checkpoints as columns: as high as they took long. */
function durations(job, history) {
  const shown = [...history].sort((a, b) => a.id - b.id).slice(-60);
  const most = Math.max(1, ...shown.map((each) => each.end_to_end_duration ?? 0));
  return h("div", { class: "columns", role: "group", "aria-label": "durations of the newest checkpoints" }, shown.map((each) =>
    h("a", { key: each.id, href: `#/jobs/${job.jid}/checkpoints/${each.id}`, class: each.status.toLowerCase(), title: `#${each.id} ${each.status.toLowerCase()}: ${format.duration(each.end_to_end_duration)}, ${format.bytes(each.state_size)}`, "aria-label": `checkpoint ${each.id}, ${format.duration(each.end_to_end_duration)}` },
      h("i", { style: { height: `${Math.max(4, ((each.end_to_end_duration ?? 0) / most) * 100)}%` } }))));
}

function historyTable(job, rows, state, redraw) {
  const most = Math.max(1, ...rows.map((row) => row.end_to_end_duration ?? 0));
  const largest = Math.max(1, ...rows.map((row) => row.state_size ?? 0));
  return table({ label: "History", rows, state, redraw, keyOf: ({ id }) => id, columns: [
    { name: "Id", value: ({ id }) => id, cell: ({ id }) => h("a", { href: `#/jobs/${job.jid}/checkpoints/${id}` }, `#${id}`), number: true },
    { name: "State", value: ({ status }) => status, cell: ({ status }) => badge(status) },
    { name: "Kind", value: (row) => kindOfCheckpoint(row) },
    { name: "Acknowledged", value: (row) => row.num_acknowledged_subtasks, cell: (row) => `${row.num_acknowledged_subtasks} of ${row.num_subtasks}`, number: true },
    { name: "Triggered", value: (row) => row.trigger_timestamp, cell: (row) => format.moment(row.trigger_timestamp) },
    { name: "Duration", value: (row) => row.end_to_end_duration, cell: (row) => bar(row.end_to_end_duration / most, format.duration(row.end_to_end_duration)) },
    { name: "State size", value: (row) => row.state_size, cell: (row) => bar(row.state_size / largest, format.bytes(row.state_size)) },
    { name: "Written", value: (row) => row.checkpointed_size, cell: (row) => format.bytes(row.checkpointed_size), number: true },
  ] });
}

export const kindOfCheckpoint = (row) => (row.checkpoint_type ?? (row.is_savepoint ? "SAVEPOINT" : "CHECKPOINT")).replaceAll("_", " ").toLowerCase();

const STATISTICS = ["min", "avg", "p50", "p90", "p95", "p99", "max"];

function summaryTable(summary, state, redraw) {
  const all = [["Duration", "end_to_end_duration", format.duration], ["State size", "state_size", format.bytes], ["Written", "checkpointed_size", format.bytes], ["Processed in flight", "processed_data", format.bytes], ["Persisted in flight", "persisted_data", format.bytes]];
  const rows = all.filter(([, key]) => summary[key]);
  return table({ label: "Summary", rows, state, redraw, keyOf: ([name]) => name, columns: [
    { name: "What", cell: ([name]) => name },
    ...STATISTICS.map((each) => ({ name: each, number: true, cell: ([, key, show]) => show(format.number(summary[key]?.[each])) })),
  ] });
}

function configuration(config) {
  const off = 9223372036854776000;
  const time = (ms) => (ms === undefined ? "–" : ms >= off ? "never" : format.duration(ms));
  return facts([
    ["Mode", (config.mode ?? "–").replaceAll("_", " ")],
    ["Interval", time(config.interval)],
    ["Time-out", time(config.timeout)],
    ["Pause between two", time(config.min_pause)],
    ["At the same time", format.exact(config.max_concurrent)],
    ["Unaligned", config.unaligned_checkpoints ? "yes" : "no"],
    ["Failures tolerated", format.exact(config.tolerable_failed_checkpoints)],
    ["After the end of tasks", config.checkpoints_after_tasks_finish ? "yes" : "no"],
    ["Kept after the job", config.externalization?.enabled ? (config.externalization.delete_on_cancellation ? "unless it is cancelled" : "yes") : "no"],
    ["State backend", config.state_backend ?? "–"],
    ["Storage", config.checkpoint_storage ?? "–"],
  ]);
}
