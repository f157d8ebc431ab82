// Puts the pages together: which address opens which page, and which key does what.

import { get, hasToken } from "./api.js";
import { inform, isOpen } from "./dialog.js";
import { h } from "./dom.js";
import { message } from "./parts/controls.js";
import { checkpoint } from "./pages/checkpoint.js";
import { checkpoints } from "./pages/checkpoints.js";
import { dataflow } from "./pages/dataflow.js";
import { exceptions } from "./pages/exceptions.js";
import { flamegraph } from "./pages/flamegraph.js";
import { jobConfiguration } from "./pages/job_configuration.js";
import { logs } from "./pages/logs.js";
import { jobManager, taskManager, taskManagers } from "./pages/managers.js";
import { metrics } from "./pages/metrics.js";
import { overview } from "./pages/overview.js";
import { submit } from "./pages/submit.js";
import { timeline } from "./pages/timeline.js";
import { setInterval, wakeAll } from "./poll.js";
import { route } from "./router.js";
import { drawTop, NAVIGATION, openPage, toggleTheme, togglePause } from "./shell.js";

route("/", overview);
route("/jobs", overview);
route("/jobs/:jid", dataflow);
route("/jobs/:jid/graph", dataflow);
route("/jobs/:jid/metrics", metrics);
route("/jobs/:jid/checkpoints", checkpoints);
route("/jobs/:jid/checkpoints/:id", checkpoint);
route("/jobs/:jid/exceptions", exceptions);
route("/jobs/:jid/timeline", timeline);
route("/jobs/:jid/flamegraph", flamegraph);
route("/jobs/:jid/configuration", jobConfiguration);
route("/taskmanagers", taskManagers);
route("/taskmanagers/:id", taskManager);
route("/jobmanager", jobManager);
route("/logs", logs);
route("/submit", submit);

const missing = (view) => view.show(h("h1", {}, "No such page"), message(`Nothing is at ${view.path}.`), h("p", {}, h("a", { href: "#/" }, "Overview")));
const open = () => openPage({ missing });

const TAB_KEYS = { 1: "graph", 2: "metrics", 3: "checkpoints", 4: "exceptions", 5: "timeline", 6: "flamegraph", 7: "configuration" };

const SHORTCUTS = [
  ...NAVIGATION.map(([, label, key]) => [`g ${key}`, label]),
  ["1 … 7", "Pages of the job: dataflow, metrics, checkpoints, exceptions, timeline, flame graph, configuration"],
  ["← → ↑ ↓", "In the graph: from vertex to vertex; in a chart: along the time axis"],
  ["Enter", "Open the vertex; Escape closes it"],
  ["+ − 0", "In the graph: zoom, fit; with Shift the arrows move the drawing"],
  ["/", "To the field that filters"],
  ["p", "Pause or resume"],
  ["d", "Light or dark"],
  ["?", "This list"],
];

const showShortcuts = () => isOpen() || inform("Keyboard shortcuts", h("dl", { class: "shortcuts" }, SHORTCUTS.map(([keys, what]) => h("div", { key: keys }, h("dt", {}, keys.split(" ").map((key) => (key === "…" ? " … " : h("kbd", {}, key)))), h("dd", {}, what)))));

let isGoing = false; // "g" has been pressed, and the next key says where to

function onKey(event) {
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const place = isGoing ? NAVIGATION.find(([, , key]) => key === event.key) : undefined;
  isGoing = event.key === "g";
  if (place) location.hash = `#${place[0]}`;
  else if (TAB_KEYS[event.key]) goToTab(TAB_KEYS[event.key]);
  else if (event.key === "?") showShortcuts();
  else if (event.key === "d") toggleTheme();
  else if (event.key === "p") togglePause();
  else if (event.key === "/") document.querySelector("main input[type=search]")?.focus();
  else return;
  event.preventDefault();
}

function goToTab(name) {
  const jid = /^#\/jobs\/([^/?]+)/.exec(location.hash)?.[1];
  if (jid) location.hash = `#/jobs/${jid}/${name}`;
}

let again = 0;

async function readConfiguration() {
  clearTimeout(again);
  try {
    const config = await get("/config");
    setInterval(config["refresh-interval"]);
    drawTop();
    if (hasToken()) wakeAll(); // which buttons there are depends on its role
  } catch {
    // The banner says that nobody answers, or wants a token; until then the defaults will do.
    again = setTimeout(readConfiguration, 5000);
  }
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind "#" names pages here
  document.getElementById("main").focus();
});
addEventListener("keydown", onKey);
addEventListener("shortcuts", showShortcuts);
addEventListener("hashchange", open);
addEventListener("token", readConfiguration);
open();
readConfiguration();
