// Upload a program, look at its plan, run it.

import { get, post, remove, ServerError } from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { message, section, table, waiting } from "../parts/controls.js";
import { Graph, nodesOfPlan } from "../parts/graph.js";

export function submit(view) {
  const state = { files: undefined, order: { by: "Uploaded", down: true }, sentence: undefined, upload: undefined, plan: undefined };
  const draw = () => view.show(h("h1", {}, "Submit a job"), content(state, { draw, ask: () => ask() }));
  view.title("Submit");
  const ask = view.poll(async (signal) => {
    if (state.isMissing) return;
    state.files = (await get("/jars", signal)).files ?? [];
    state.sentence = undefined;
    draw();
  }, { every: 2, failed: (error) => { Object.assign(state, { sentence: error.message, isMissing: error.isMissing }); draw(); } });
  draw();
}

function content(state, act) {
  if (state.sentence) return section("Programs", {}, message(state.sentence));
  return [
    section("Upload", {}, dropZone(state, act)),
    section("Programs", {}, state.files ? files(state, act) : waiting(3)),
    state.plan ? planPanel(state) : null,
  ];
}

function dropZone(state, act) {
  const take = (list) => list.length && upload(list[0], state, act);
  const drop = (event) => {
    event.preventDefault();
    take(event.dataTransfer.files);
  };
  return h("label", { class: "drop", onDragover: (event) => event.preventDefault(), onDrop: drop },
    h("input", { type: "file", accept: ".py,.zip,.whl,.jar", onChange: (event) => { take(event.target.files); event.target.value = ""; } }),
    h("strong", {}, "Choose a program, or drop it here"),
    h("span", { class: state.upload?.failed ? "bad" : null, role: "status" }, state.upload?.text ?? ".py, .zip or .whl"));
}

async function upload(file, state, act) {
  state.upload = { text: `uploading ${file.name} (${format.bytes(file.size)}) …` };
  act.draw();
  const form = new FormData();
  form.append("jarfile", file, file.name);
  try {
    await post("/jars/upload", form);
    state.upload = { text: `${file.name} is there.` };
  } catch (error) {
    state.upload = { text: error.message, failed: true };
  }
  act.draw();
  act.ask();
}

function files(state, act) {
  return table({ label: "Programs", rows: state.files, keyOf: ({ id }) => id, state: state.order, redraw: act.draw, empty: "Nothing has been uploaded.", columns: [
    { name: "Name", value: ({ name }) => name },
    { name: "Uploaded", value: ({ uploaded }) => uploaded, cell: ({ uploaded }) => format.moment(uploaded) },
    { name: "Entry", value: ({ entry }) => entry?.map(({ name }) => name).join(", ") },
    { name: "What to do", cell: (file) => h("span", { class: "row-actions" },
      h("button", { class: "primary", onClick: () => askRun(file) }, "Run"),
      h("button", { onClick: () => showPlan(file, state, act) }, "Plan"),
      h("button", { onClick: () => askDelete(file, act) }, "Delete")) },
  ] });
}

const FIELDS = (file) => [
  { name: "entryClass", label: "Entry", value: file.entry?.[0]?.name ?? "", help: "Empty: what the file itself says." },
  { name: "parallelism", label: "Parallelism", type: "number", min: 1, help: "Empty: the default." },
  { name: "arguments", label: "Arguments", help: "As on a command line; “…” keeps words together." },
  { name: "savepointPath", label: "Savepoint to start from" },
  { name: "allowNonRestoredState", label: "Leave out state that has no operator", type: "checkbox" },
];

/** Words as a shell divides them, with single and double quotes. */
export function words(line) {
  return [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3]);
}

function askRun(file) {
  confirm({
    title: `Run ${file.name}`,
    fields: FIELDS(file),
    confirmLabel: "Run it",
    act: async ({ entryClass, parallelism, arguments: line, savepointPath, allowNonRestoredState }) => {
      const body = { programArgsList: words(line), allowNonRestoredState };
      if (entryClass) body.entryClass = entryClass;
      if (parallelism) body.parallelism = Number(parallelism);
      if (savepointPath) body.savepointPath = savepointPath;
      const { jobid } = await post(`/jars/${encodeURIComponent(file.id)}/run`, body);
      location.hash = `#/jobs/${jobid}`;
      return `Job ${jobid} has started.`;
    },
  });
}

function askDelete(file, act) {
  confirm({
    title: `Delete ${file.name}`, text: "Jobs that it started go on.", confirmLabel: "Delete it", danger: true,
    act: async () => {
      await remove(`/jars/${encodeURIComponent(file.id)}`);
      act.ask();
      return "It is gone.";
    },
  });
}

async function showPlan(file, state, act) {
  try {
    const { plan } = await post(`/jars/${encodeURIComponent(file.id)}/plan`);
    state.plan = { name: file.name, nodes: nodesOfPlan(plan) };
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    state.plan = { name: file.name, sentence: error.message };
  }
  act.draw();
}

function planPanel({ plan }) {
  if (plan.sentence) return section(`Plan of ${plan.name}`, { key: "plan" }, message(plan.sentence));
  const mount = (element) => requestAnimationFrame(() => new Graph(element, { live: false, label: "Plan" }).update(plan.nodes, new Map()));
  return section(`Plan of ${plan.name}`, { key: `plan ${plan.name}` }, h("div", { class: "graph-panel", ref: mount }));
}
