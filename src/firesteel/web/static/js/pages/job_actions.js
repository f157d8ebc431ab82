// What one can do to a job, each after a question: cancel, stop with a savepoint, savepoint, checkpoint, rescale.

import { finished, newest, patch, post, ServerError } from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { plural } from "../format.js";
import { wakeAll } from "../poll.js";

const ENDED = new Set(["FINISHED", "CANCELED", "FAILED"]);
const refused = new Map(); // "job action" -> the sentence with which the server said that it has no such thing

/** Buttons for what the job can be told now; what the server does not have is not offered twice. */
export function actions(job, draw) {
  if (ENDED.has(job.state)) return null;
  const features = newest("/config")?.features ?? {};
  const all = [
    features["web-cancel"] !== false && ["savepoint", "Savepoint", askSavepoint],
    features["web-cancel"] !== false && ["stop", "Stop", askStop],
    features["web-rescale"] !== false && ["rescale", "Rescale", askRescale],
    features["web-cancel"] !== false && ["cancel", "Cancel", askCancel],
  ];
  return all.filter(Boolean).filter(([name]) => !refused.has(`${job.jid} ${name}`)).map(([name, label, ask]) =>
    h("button", { key: name, type: "button", class: name === "cancel" ? "danger" : null, onClick: () => ask(job, guarded(job, name, draw)) }, label));
}

/** Remembers that the server does not have an action, so that its button goes. */
function guarded(job, name, draw) {
  return (act) => async (values) => {
    try {
      const sentence = await act(values);
      wakeAll();
      return sentence;
    } catch (error) {
      if (error instanceof ServerError && error.isMissing) {
        refused.set(`${job.jid} ${name}`, error.message);
        draw();
      }
      throw error;
    }
  };
}

const DIRECTORY = { name: "directory", label: "Directory", help: "Empty: the directory that the configuration names." };

async function savepointPath(job, trigger) {
  const { location } = await finished(`/jobs/${job.jid}/savepoints/${trigger["request-id"]}`);
  return location;
}

function askSavepoint(job, guard) {
  confirm({
    title: "Take a savepoint",
    text: `“${job.name}” goes on to run.`,
    fields: [DIRECTORY],
    confirmLabel: "Take it",
    act: guard(async ({ directory }) => {
      const trigger = await post(`/jobs/${job.jid}/savepoints`, { "cancel-job": false, ...(directory && { "target-directory": directory }) });
      return `The savepoint is in ${await savepointPath(job, trigger)}`;
    }),
  });
}

function askStop(job, guard) {
  confirm({
    title: "Stop with a savepoint",
    text: `“${job.name}” ends; from the savepoint it can be resumed.`,
    fields: [DIRECTORY, { name: "drain", label: "Drain", type: "checkbox", help: "Fire all timers first. A job that is resumed afterwards may give wrong results." }],
    confirmLabel: "Stop the job",
    danger: true,
    act: guard(async ({ directory, drain }) => {
      const trigger = await post(`/jobs/${job.jid}/stop`, { drain, ...(directory && { targetDirectory: directory }) });
      return `The job has stopped. The savepoint is in ${await savepointPath(job, trigger)}`;
    }),
  });
}

function askCancel(job, guard) {
  confirm({
    title: "Cancel the job",
    text: `“${job.name}” ends without a savepoint. What it did since its newest checkpoint is lost.`,
    confirmLabel: "Cancel the job",
    danger: true,
    act: guard(async () => {
      await patch(`/jobs/${job.jid}?mode=cancel`);
      return "The job is being cancelled.";
    }),
  });
}

function askRescale(job, guard) {
  const most = Math.max(1, ...(job.vertices ?? []).map(({ parallelism }) => parallelism));
  confirm({
    title: "Rescale",
    text: `“${job.name}” now has at most ${plural(most, "subtask")} per vertex. Its tasks end with a checkpoint, and others resume from it. Operators with a parallelism of their own keep it.`,
    fields: [{ name: "parallelism", label: "Parallelism", type: "number", min: 1, required: true, value: most }],
    confirmLabel: "Rescale the job",
    act: guard(({ parallelism }) => rescale(job, Number(parallelism))),
  });
}

/** As if the job had been started with this parallelism; answers when it runs with it, or why it goes on as it was. */
async function rescale(job, parallelism) {
  const trigger = await patch(`/jobs/${job.jid}/rescaling?parallelism=${parallelism}`);
  await finished(`/jobs/${job.jid}/rescaling/${trigger["request-id"]}`);
  return `The job runs with parallelism ${parallelism}.`;
}
