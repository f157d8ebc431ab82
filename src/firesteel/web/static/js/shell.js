// What surrounds every page: the bar at the top, the banner, and the life of the page that is open.

import { hasToken, newest, onConnection, useToken } from "./api.js";
import { h, show } from "./dom.js";
import { confirm, say } from "./dialog.js";
import { isPaused, poll, setPaused, wakeAll } from "./poll.js";
import { resolve } from "./router.js";
import { isDark, onSystemChange, switchTheme } from "./theme.js";

const connection = { reachable: true, denied: false, since: 0 };
let current = { controller: new AbortController(), path: "" };

export const NAVIGATION = [
  ["/", "Overview", "o"],
  ["/taskmanagers", "Task managers", "t"],
  ["/jobmanager", "Job manager", "m"],
  ["/logs", "Logs", "l"],
  ["/submit", "Submit", "s"],
];

export function toggleTheme() {
  say(`${switchTheme()} colours`);
  drawTop();
}

export function togglePause() {
  setPaused(!isPaused());
  say(isPaused() ? "paused" : "live");
  drawTop();
}

export function drawTop() {
  const { path } = current;
  const isHere = (to) => (to === "/" ? path === "/" || path.startsWith("/jobs") : path.startsWith(to));
  const canSubmit = newest("/config")?.features?.["web-submit"] !== false;
  show(document.getElementById("top"),
    h("a", { class: "brand", href: "#/", "aria-label": "Firesteel, overview" }, h("img", { src: "icon.svg", alt: "", width: 26, height: 26 }), "Firesteel"),
    h("nav", { "aria-label": "Pages" },
      NAVIGATION.filter(([to]) => canSubmit || to !== "/submit").map(([to, label]) =>
        h("a", { key: to, href: `#${to}`, "aria-current": isHere(to) ? "page" : null }, label))),
    h("div", { class: "top-tools" },
      h("span", { class: "version" }, newest("/config")?.["flink-version"] ?? ""),
      h("button", { class: `quiet live ${connection.reachable && !isPaused() ? "on" : ""}`, "aria-pressed": String(isPaused()), onClick: togglePause, title: "Pause or resume (p)" },
        isPaused() ? "Paused" : connection.reachable ? "Live" : "Waiting"),
      hasToken() ? h("button", { key: "token", class: "quiet", onClick: () => useToken(""), title: "Forget the token of this tab" }, "Forget token") : null,
      h("button", { class: "quiet", onClick: toggleTheme, title: "Light or dark (d)", "aria-label": isDark() ? "Light colours" : "Dark colours" }, isDark() ? "☀" : "☾"),
      h("button", { class: "quiet", onClick: () => dispatchEvent(new CustomEvent("shortcuts")), title: "Keyboard shortcuts (?)", "aria-label": "Keyboard shortcuts" }, "?")));
}

function drawBanner() {
  const banner = document.getElementById("banner");
  if (connection.denied) {
    show(banner, h("p", {}, "The server wants to know who asks. ", h("button", { onClick: askForToken }, "Enter a token")));
  } else if (!connection.reachable) {
    show(banner, h("p", {}, "The server does not answer. What you see is from before; this page goes on trying. ", h("button", { onClick: wakeAll }, "Try now")));
  } else show(banner);
}

function askForToken() {
  confirm({
    title: "Token",
    text: "It is kept until this tab is closed, and sent to this server only.",
    fields: [{ name: "token", label: "Bearer token", type: "password" }],
    confirmLabel: "Use it",
    act: async ({ token }) => {
      useToken(token.trim());
      return "The pages ask with this token now.";
    },
  });
}

onConnection(({ reachable, denied }) => {
  if (reachable === connection.reachable && denied === connection.denied) return;
  Object.assign(connection, { reachable, denied });
  drawBanner();
  drawTop();
});
onSystemChange(drawTop);
addEventListener("token", () => {
  drawTop();
  wakeAll();
});

/** Open the page of the current address; the page before it stops asking. */
export function openPage({ missing }) {
  const before = current;
  const target = resolve(location.hash);
  before.controller.abort();
  const controller = new AbortController();
  const main = document.getElementById("main");
  current = { controller, path: target.path };
  show(main); // what is drawn by hand, such as a graph, belongs to the page that was there
  const view = {
    ...target,
    signal: controller.signal,
    show: (...content) => controller.signal.aborted || show(main, ...content),
    poll: (ask, options) => poll(ask, controller.signal, options),
    title: (text) => (document.title = text ? `${text} · Firesteel` : "Firesteel"),
  };
  view.title("");
  drawTop();
  (target.open ?? missing)(view);
  if (before.path && before.path !== target.path) main.focus({ preventScroll: true });
  if (before.path.split("/")[1] !== target.path.split("/")[1]) scrollTo(0, 0);
}
