// How a job is configured, and what its accumulators say.

import { getIfThere } from "../api.js";
import { facts, section, settings, table, waiting } from "../parts/controls.js";
import * as format from "../format.js";
import { jobPage } from "./job_frame.js";

export function jobConfiguration(view) {
  const state = { config: undefined, accumulators: undefined, isLoaded: false, list: {}, sums: {}, settings: {} };
  const page = jobPage(view, "configuration", {
    load: async (job, signal) => {
      const [config, accumulators, cluster] = await Promise.all([
        getIfThere(`/jobs/${job.jid}/config`, signal), getIfThere(`/jobs/${job.jid}/accumulators`, signal), getIfThere(`/jobs/${job.jid}/jobmanager/config`, signal)]);
      Object.assign(state, { config, accumulators, cluster, isLoaded: true });
    },
    body: (job) => content(job, state, () => page.draw()),
    every: 3,
  });
}

function content(job, state, redraw) {
  if (!state.isLoaded) return waiting(8);
  const execution = state.config?.["execution-config"] ?? {};
  const user = Object.entries(execution["user-config"] ?? {});
  const sums = state.accumulators?.["user-task-accumulators"] ?? [];
  return [
    section("Execution", {}, facts([
      ["Type", (job["job-type"] ?? "–").toLowerCase()],
      ["Mode", execution["execution-mode"] ?? "–"],
      ["Restart strategy", execution["restart-strategy"] ?? "–"],
      ["Parallelism", format.exact(format.number(execution["job-parallelism"]))],
      ["Largest parallelism", format.exact(job.maxParallelism)],
      ["Object reuse", execution["object-reuse-mode"] ? "yes" : "no"],
    ])),
    section("Parameters of the program", {}, settings(user, state.list, redraw, "parameters")),
    section("Accumulators", {}, table({ label: "Accumulators", rows: sums, keyOf: ({ name }) => name, state: state.sums, redraw, empty: "The job has no accumulators.", columns: [
      { name: "Name", value: ({ name }) => name }, { name: "Type", value: ({ type }) => type }, { name: "Value", value: ({ value }) => format.number(value) ?? value, cell: ({ value }) => String(value), number: true }] })),
    state.cluster?.length ? section("Configuration", {}, settings(state.cluster.map(({ key, value }) => [key, value]), state.settings, redraw, "configuration")) : null,
  ];
}
