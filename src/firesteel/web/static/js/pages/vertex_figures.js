// The live figures of a job's vertices: rates, load, watermark, size of the state.

import { getIfThere } from "../api.js";
import { number, watermarkLag } from "../format.js";

const NAMES = ["numRecordsInPerSecond", "numRecordsOutPerSecond", "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "idleTimeMsPerSecond"];
const LATEST = "currentInputWatermark";

/** Asks for all vertices at once; a map of vertex to {status, in, out, busy, backPressured, idle, watermark, lag, state}. */
export async function vertexFigures(job, signal, before = new Map()) {
  const states = await stateSizes(job, signal);
  const entries = await Promise.all((job.vertices ?? []).map(async (vertex) => {
    const base = { status: vertex.status, parallelism: vertex.parallelism, read: vertex.metrics?.["read-records"], written: vertex.metrics?.["write-records"], now: job.now, state: states.get(vertex.id) };
    if (job["end-time"] > 0) return [vertex.id, base];
    const path = `/jobs/${job.jid}/vertices/${vertex.id}`;
    const [metrics, watermarks] = await Promise.all([
      getIfThere(`${path}/subtasks/metrics?get=${NAMES.join(",")}`, signal),
      getIfThere(`${path}/watermarks`, signal),
    ]);
    return [vertex.id, { ...base, ...loadOf(metrics), ...ratesOf(metrics, base, before.get(vertex.id)), ...watermarkOf(watermarks, job.now) }];
  }));
  return new Map(entries);
}

const find = (metrics, name) => metrics?.find(({ id }) => id === name);

function loadOf(metrics) {
  const share = (name) => {
    const average = number(find(metrics, name)?.avg);
    return average === undefined ? undefined : Math.min(1, Math.max(0, average / 1000));
  };
  return { busy: share(NAMES[2]), backPressured: share(NAMES[3]), idle: share(NAMES[4]) };
}

/** Records per second as the server measures them, or else from the totals of this answer and the one before. */
function ratesOf(metrics, now, before) {
  const counted = (name) => {
    const seconds = before ? (now.now - before.now) / 1000 : 0;
    return seconds > 0 && now[name] >= before[name] ? (now[name] - before[name]) / seconds : undefined;
  };
  return { in: number(find(metrics, NAMES[0])?.sum) ?? counted("read"), out: number(find(metrics, NAMES[1])?.sum) ?? counted("written") };
}

function watermarkOf(watermarks, now) {
  const values = (watermarks ?? []).filter(({ id }) => id.endsWith(LATEST)).map(({ value }) => number(value)).filter((value) => value !== undefined);
  if (!values.length) return {};
  const lowest = Math.min(...values);
  return { watermark: lowest, lag: watermarkLag(lowest, now) };
}

async function stateSizes(job, signal) {
  const checkpoints = await getIfThere(`/jobs/${job.jid}/checkpoints`, signal);
  const id = checkpoints?.latest?.completed?.id;
  if (id === undefined) return new Map();
  const details = await getIfThere(`/jobs/${job.jid}/checkpoints/details/${id}`, signal);
  return new Map(Object.entries(details?.tasks ?? {}).map(([vertex, task]) => [vertex, task.state_size]));
}
