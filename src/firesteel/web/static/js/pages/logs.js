// Log files and standard output of the job manager and of every task manager, in one place.

import { get, getIfThere, getText, newest, ServerError } from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { link } from "../router.js";
import { message, section, waiting } from "../parts/controls.js";

const MOST_LINES = 4000;
const MOST_BYTES = 1 << 20; // of the end of a file: whole ones may have a hundred megabytes
const LEVEL = /\b(ERROR|CRITICAL|FATAL|WARN(?:ING)?|INFO|DEBUG|TRACE)\b/;
const BAD = new Set(["ERROR", "CRITICAL", "FATAL"]);

export function logs(view) {
  const source = view.query.get("source") ?? "jobmanager";
  const base = source === "jobmanager" ? "/jobmanager" : `/taskmanagers/${encodeURIComponent(source)}`;
  const state = { source, base, file: view.query.get("file") ?? undefined, managers: newest("/taskmanagers")?.taskmanagers ?? [], files: undefined, text: undefined, sentence: undefined, filter: "", onlyBad: false, follow: true, wrap: true };
  const draw = () => view.show(h("h1", {}, "Logs"), content(state, { draw, ask: () => ask() }));
  view.title("Logs");
  const ask = view.poll(async (signal) => {
    const [managers, files] = await Promise.all([getIfThere("/taskmanagers", signal), getIfThere(`${base}/logs`, signal)]);
    Object.assign(state, { managers: managers?.taskmanagers ?? [], files: files?.logs ?? [] });
    state.file ??= preferred(state.files);
    await loadText(state, signal);
    draw();
    if (state.follow) toEnd();
  }, { every: 2, failed: (error) => { state.sentence = error.message; draw(); } });
  draw();
}

/** The log that somebody most likely wants: the largest *.log, or else the first file, or what "log" gives. */
function preferred(files) {
  const logs = files.filter(({ name }) => name.endsWith(".log")).sort((a, b) => b.size - a.size);
  return (logs[0] ?? files[0])?.name ?? "log";
}

async function loadText(state, signal) {
  const special = state.file === "stdout" || state.file === "log";
  const path = special ? `${state.base}/${state.file}` : `${state.base}/logs/${encodeURIComponent(state.file)}`;
  try {
    Object.assign(state, { text: wholeLines(await getText(`${path}?tail=${MOST_BYTES}`, signal)), sentence: undefined });
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    Object.assign(state, { text: undefined, sentence: error.message });
  }
}

/** Without the rest of a line whose beginning was cut off. */
const wholeLines = (text) => (new Blob([text]).size < MOST_BYTES ? text : text.slice(text.indexOf("\n") + 1));

function toEnd() {
  const element = document.querySelector(".log");
  if (element) element.scrollTop = element.scrollHeight;
}

function content(state, act) {
  const go = (source, file) => (location.hash = link("/logs", { source, file }));
  const names = [...(state.files?.length ? state.files.map(({ name }) => name) : ["log"]), "stdout"];
  const sizes = new Map((state.files ?? []).map(({ name, size }) => [name, size]));
  const check = (name, label, after = act.draw) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: state[name], onChange: (event) => { state[name] = event.target.checked; after(); } }), label);
  const tools = h("div", { class: "panel-tools" },
    h("select", { "aria-label": "whose log", onChange: (event) => go(event.target.value) },
      h("option", { key: "jobmanager", value: "jobmanager", selected: state.source === "jobmanager" }, "job manager"),
      state.managers.map(({ id }) => h("option", { key: id, value: id, selected: id === state.source }, `task manager ${id}`))),
    h("select", { "aria-label": "file", onChange: (event) => go(state.source, event.target.value) },
      names.map((name) => h("option", { key: name, value: name, selected: name === state.file }, sizes.has(name) ? `${name} (${format.bytes(sizes.get(name))})` : name))));
  return section("File", { key: "log", tools },
    h("div", { class: "log-tools" },
      h("input", { type: "search", class: "filter", placeholder: "only lines with …", "aria-label": "only lines with", value: state.filter, onInput: (event) => { state.filter = event.target.value; act.draw(); } }),
      check("onlyBad", "errors and warnings"), check("follow", "follow", act.ask), check("wrap", "wrap")),
    state.sentence ? message(state.sentence) : state.text === undefined ? waiting(12) : state.text ? lines(state) : message("Nothing was written yet."));
}

/** Lines with their level; what follows a line without a level of its own, a traceback for example, belongs to it. */
export function leveled(text) {
  let level = "INFO";
  return text.replace(/\n$/, "").split("\n").map((line) => {
    level = LEVEL.exec(line.slice(0, 120))?.[1] ?? (/^\S/.test(line) && !/^(Traceback|[\w.]+(Error|Exception))/.test(line) ? "INFO" : level);
    return { line, level };
  });
}

function lines(state) {
  const wanted = state.filter.toLowerCase();
  const isShown = ({ line, level }) => (!state.onlyBad || BAD.has(level) || level.startsWith("WARN")) && line.toLowerCase().includes(wanted);
  const all = leveled(state.text).filter(isShown);
  const shown = all.slice(-MOST_LINES);
  const kind = (level) => (BAD.has(level) ? "bad" : level.startsWith("WARN") ? "warn" : level === "DEBUG" || level === "TRACE" ? "faint" : null);
  return [
    h("p", { class: "quiet-text" }, all.length > shown.length ? `the last ${format.exact(shown.length)} of ${format.exact(all.length)} lines` : format.plural(all.length, "line")),
    h("pre", { class: `log ${state.wrap ? "wrap" : ""}`, tabindex: 0, "aria-label": state.file }, shown.map(({ line, level }, at) => h("span", { key: all.length - shown.length + at, class: kind(level) }, `${line}\n`))),
  ];
}
