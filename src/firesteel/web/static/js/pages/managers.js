// The processes that the system consists of: the job manager, and the task managers with their slots.

import { get, getIfThere, metricValues, newest, put, ServerError } from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { link } from "../router.js";
import { bar, choice, facts, message, section, settings, table, waiting } from "../parts/controls.js";

export function taskManagers(view) {
  const state = { rows: newest("/taskmanagers")?.taskmanagers, lost: newest("/taskmanagers")?.lost ?? [], order: {}, lostOrder: {}, error: undefined };
  const draw = () => view.show(h("h1", {}, "Task managers"), state.error ? message(state.error.message, "bad") : [section("Executors and their slots", {}, state.rows ? list(state, draw) : waiting(4)), state.lost.length ? section("Lost", {}, lost(state, draw)) : null]);
  view.title("Task managers");
  view.poll(async (signal) => {
    const { taskmanagers, lost: gone = [] } = await get("/taskmanagers", signal);
    Object.assign(state, { rows: taskmanagers, lost: gone });
    draw();
  }, { failed: (error) => { state.error = error; draw(); } });
  draw();
}

function list(state, redraw) {
  const used = (row) => row.slotsNumber - row.freeSlots;
  return table({ label: "Task managers", rows: state.rows, keyOf: ({ id }) => id, state: state.order, redraw, empty: "No task manager is there: jobs wait.", columns: [
    { name: "Id", value: ({ id }) => id, cell: ({ id, path }) => h("a", { href: `#/taskmanagers/${encodeURIComponent(id)}`, title: path }, id) },
    { name: "Slots in use", value: used, cell: (row) => bar(row.slotsNumber ? used(row) / row.slotsNumber : 0, `${used(row)} of ${row.slotsNumber}`, row.freeSlots ? "plain" : "hot") },
    { name: "Last heartbeat", value: (row) => row.timeSinceLastHeartbeat, cell: (row) => format.moment(row.timeSinceLastHeartbeat) },
    { name: "Cores", value: ({ hardware }) => hardware?.cpuCores, number: true },
    { name: "Memory", value: ({ hardware }) => hardware?.physicalMemory, cell: ({ hardware }) => format.bytes(hardware?.physicalMemory), number: true },
    { name: "For Spark's blocks", value: ({ hardware }) => hardware?.freeMemory, cell: ({ hardware }) => format.bytes(hardware?.freeMemory), number: true },
    { name: "More", cell: ({ id }) => h("a", { href: link("/logs", { source: id }) }, "logs") },
  ] });
}

function lost(state, redraw) {
  return table({ label: "Lost", rows: state.lost, keyOf: ({ id, since }) => `${id} ${since}`, state: state.lostOrder, redraw, columns: [
    { name: "Id", value: ({ id }) => id, cell: ({ id }) => h("a", { href: link("/logs", { source: id }), title: "its logs" }, id) },
    { name: "Host", value: ({ host }) => host },
    { name: "From", value: ({ since }) => since, cell: ({ since }) => format.moment(since) },
    { name: "To", value: (row) => row.lost, cell: (row) => format.moment(row.lost) },
    { name: "Why", value: ({ reason }) => reason },
  ] });
}

export function taskManager(view) {
  const { id } = view.params;
  const path = `/taskmanagers/${encodeURIComponent(id)}`;
  const state = { answer: newest(path), tab: view.query.get("tab") ?? "overview", error: undefined, metrics: undefined, threads: undefined, list: {}, slots: {} };
  const draw = () => view.show(h("h1", {}, "Task manager ", h("code", {}, id)), state.error ? message(state.error.message, "bad") : [
    manager(view, state, [["overview", "Overview"], ["metrics", "Metrics"], ["threads", "Threads"]], ask),
    state.tab === "overview" ? (state.answer ? [resources(state.answer), slots(state, draw)] : waiting(8)) : shared(path, state, draw)]);
  view.title(`Task manager ${id}`);
  const ask = view.poll(async (signal) => {
    state.answer = await get(path, signal);
    await loadShared(path, state, signal);
    draw();
  }, { failed: (error) => { state.error = error; draw(); } });
  draw();
}

function manager(view, state, items, ask) {
  const source = view.params.id ?? "jobmanager";
  return h("div", { class: "manager-tabs", key: "tabs" }, choice("What to show", items, state.tab, (tab) => { state.tab = tab; history.replaceState(null, "", link(view.path, { tab })); ask(); }),
    h("a", { href: link("/logs", { source }) }, "Logs"), h("a", { href: link("/logs", { source, file: "stdout" }) }, "Standard output"));
}

function resources(answer) {
  const { hardware = {}, metrics = {} } = answer;
  const used = (part, whole) => bar(whole > 0 ? part / whole : 0, `${format.bytes(part)} of ${format.bytes(whole)}`);
  return section("Resources", {}, facts([
    ["Address", h("code", {}, answer.path ?? "–")],
    ["Last heartbeat", format.moment(answer.timeSinceLastHeartbeat)],
    ["Slots", `${answer.slotsNumber - answer.freeSlots} of ${answer.slotsNumber} in use`],
    ["Cores", format.exact(hardware.cpuCores)],
    ["Memory of the machine", format.bytes(hardware.physicalMemory)],
    metrics.heapMax !== undefined && ["Heap", used(metrics.heapUsed, metrics.heapMax)],
    metrics.nonHeapUsed !== undefined && ["Outside the heap", format.bytes(metrics.nonHeapUsed)],
    metrics.garbageCollectors?.length && ["Garbage collection", metrics.garbageCollectors.map((each) => `${each.name}: ${format.plural(each.count, "time")}, ${format.duration(each.time)}`).join("; ")],
  ]));
}

function slots(state, redraw) {
  return section("Slots in use", {}, table({ label: "Slots in use", rows: (state.answer.allocatedSlots ?? []).map((row, at) => ({ ...row, at })), keyOf: ({ at }) => at, state: state.slots, redraw, empty: "No slot is in use.", columns: [
    { name: "Job", value: ({ jobId }) => jobId, cell: ({ jobId }) => h("a", { href: `#/jobs/${jobId}` }, h("code", {}, jobId)) },
    { name: "Tasks", value: ({ assignedTasks }) => assignedTasks, number: true },
    { name: "Cores", value: ({ resource }) => resource?.cpuCores, number: true },
  ] }));
}

export function jobManager(view) {
  const state = { tab: view.query.get("tab") ?? "configuration", config: undefined, environment: undefined, list: {}, values: {} };
  const draw = () => view.show(h("h1", {}, "Job manager"), manager(view, state, [["configuration", "Configuration"], ["environment", "Environment"], ["metrics", "Metrics"], ["threads", "Threads"], ["levels", "Log levels"]], ask),
    state.tab === "levels" ? logLevels(state, draw) : state.tab === "configuration" ? section("Configuration", {}, state.config ? settings(state.config.map(({ key, value }) => [key, value]), state.list, draw, "configuration") : state.isLoaded ? message("The server tells no configuration.") : waiting(8))
      : state.tab === "environment" ? environment(state) : shared("/jobmanager", state, draw));
  view.title("Job manager");
  const ask = view.poll(async (signal) => {
    [state.config, state.environment] = await Promise.all([getIfThere("/jobmanager/config", signal), getIfThere("/jobmanager/environment", signal)]);
    await loadShared("/jobmanager", state, signal);
    if (state.tab === "levels") state.levels = (await getIfThere("/log-levels", signal))?.loggers ?? [];
    state.isLoaded = true;
    draw();
  });
  draw();
}

const LEVELS = ["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"];

/** Loggers with their levels, which can be changed: in the driver and in all tasks that run. */
function logLevels(state, draw) {
  if (!state.levels) return section("Log levels", {}, waiting(6));
  const change = async (logger, level) => {
    try {
      state.levels = (await put("/log-levels", { logger, level: level || null })).loggers;
      state.problem = undefined;
    } catch (error) {
      state.problem = error.message;
    }
    draw();
  };
  const select = ({ logger, level }) => h("select", { "aria-label": `level of ${logger || "root"}`, onChange: (event) => change(logger, event.target.value) },
    logger ? h("option", { key: "none", value: "" }, "that of the logger above") : null,
    [...new Set([...LEVELS, level])].map((name) => h("option", { key: name, value: name, selected: name === level }, name)));
  const add = (event) => {
    const name = event.target.value.trim();
    event.target.value = "";
    if (name) change(name, "DEBUG");
  };
  return section("Log levels", {},
    h("p", { class: "quiet-text" }, "A level counts at once, in the driver and in all tasks, until the driver ends."),
    state.problem ? message(state.problem, "bad") : null,
    table({ label: "Log levels", rows: state.levels, keyOf: ({ logger }) => logger, state: state.list, redraw: draw, columns: [
      { name: "Logger", value: ({ logger }) => logger, cell: ({ logger }) => h("code", {}, logger || "root") },
      { name: "Level", value: ({ level }) => level, cell: select },
    ] }),
    h("p", {}, h("label", {}, "Another logger, at DEBUG: ", h("input", { type: "text", "aria-label": "name of another logger", onChange: add }))));
}

function environment(state) {
  if (!state.environment) return section("Environment", {}, state.isLoaded ? message("The server tells nothing about its environment.") : waiting(8));
  const { jvm = {}, classpath = [] } = state.environment;
  return section("Environment", {}, facts([["Version", jvm.version ?? "–"], ["Machine", jvm.arch ?? "–"], ["Options", h("code", {}, (jvm.options ?? []).join(" ") || "–")],
    ["Path", h("ul", { class: "plain-list" }, classpath.map((each, at) => h("li", { key: at }, h("code", {}, each))))]]));
}

async function loadShared(path, state, signal) {
  if (state.tab === "metrics") {
    state.names ??= ((await getIfThere(`${path}/metrics`, signal)) ?? []).map(({ id }) => id).sort();
    state.metrics = state.names.length ? await metricValues(`${path}/metrics`, state.names, signal) : new Map();
  }
  if (state.tab === "threads" && !state.sentence) await loadThreads(path, state, signal);
}

async function loadThreads(path, state, signal) {
  try {
    state.threads = (await get(`${path}/thread-dump`, signal)).threadInfos ?? [];
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    state.sentence = error.message;
  }
}

function shared(_path, state, draw) {
  if (state.tab === "metrics") return section("Metrics", {}, state.metrics ? settings([...state.metrics].map(([name, value]) => [name, Number.isFinite(value) ? format.exact(value) : "–"]), state.list, draw, "metrics") : waiting(8));
  if (!state.threads) return section("Threads", {}, state.sentence ? message(state.sentence) : waiting(8));
  return section("Threads", {}, state.threads.length ? state.threads.map((each, at) => h("details", { key: `${each.threadName} ${at}` }, h("summary", {}, each.threadName), h("pre", { class: "traceback" }, each.stringifiedThreadInfo))) : message("There are no threads."));
}
