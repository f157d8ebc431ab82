// Small parts that many pages are made of: states, tables, tabs, bars, facts and messages.

import { h } from "../dom.js";
import * as format from "../format.js";

const KINDS = {
  RUNNING: "good", FINISHED: "done", COMPLETED: "good", FAILED: "bad", FAILING: "bad", CANCELED: "off", CANCELLING: "busy",
  CANCELING: "busy", CREATED: "off", SCHEDULED: "busy", DEPLOYING: "busy", INITIALIZING: "busy", RESTARTING: "busy",
  RECONCILING: "busy", IDLE: "off", LOST: "bad", IN_PROGRESS: "busy", SUSPENDED: "off", ok: "good", low: "busy", high: "bad",
};

export const kindOf = (state) => KINDS[state] ?? "off";

export function badge(state) {
  return h("span", { class: `badge ${kindOf(state)}` }, state ? String(state).replaceAll("_", " ").toLowerCase() : "unknown");
}

/** A heading with what belongs to its right. */
export function section(title, { tools = null, key = title, className = "" } = {}, ...content) {
  return h("section", { class: `panel ${className}`, key, "aria-label": title },
    h("div", { class: "panel-head" }, h("h2", {}, title), tools), ...content);
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value, title]) =>
    h("div", { key: name, title }, h("dt", {}, name), h("dd", {}, value))));
}

export function message(text, kind = "") {
  return h("p", { class: `message ${kind}`, role: kind === "bad" ? "alert" : null }, text);
}

/** Shown where something will be as soon as the server has answered; of its size, so that nothing jumps. */
export function waiting(lines = 3) {
  return h("div", { class: "waiting", "aria-label": "loading" }, Array.from({ length: lines }, () => h("i", {})));
}

/** A share as a bar with its number; `kind` gives the colour. */
export function bar(share, text, kind = "plain", title) {
  const width = `${Math.min(100, Math.max(0, (share || 0) * 100)).toFixed(1)}%`;
  return h("span", { class: `bar ${kind}`, title }, h("i", { style: { width } }), h("b", {}, text));
}

/** Busy, back-pressured and idle in one line. */
export function load({ busy, backPressured, idle }) {
  if (busy === undefined && backPressured === undefined) return h("span", { class: "load none" });
  const part = (kind, share) => h("i", { class: kind, style: { width: `${((share ?? 0) * 100).toFixed(1)}%` } });
  const text = `busy ${format.percent(busy)}, back-pressured ${format.percent(backPressured)}, idle ${format.percent(idle)}`;
  return h("span", { class: "load", role: "img", "aria-label": text, title: text },
    part("busy", busy), part("held", backPressured), part("idle", idle));
}

/** Tabs as links, so that each can be bookmarked: [[href, label, isHere]]. */
export function tabs(label, items) {
  return h("nav", { class: "tabs", "aria-label": label }, items.map(([href, text, here]) =>
    h("a", { key: text, href, "aria-current": here ? "page" : null }, text)));
}

/** Buttons of which one is pressed: [[value, label]]. */
export function choice(label, items, chosen, choose) {
  return h("div", { class: "choice", role: "group", "aria-label": label }, items.map(([value, text]) =>
    h("button", { key: String(value), type: "button", "aria-pressed": String(value === chosen), onClick: () => choose(value) }, text)));
}

/**
 * A table that can be sorted. Columns are {name, value: row -> what sorts, cell: row -> what shows, number}.
 *
 * `state` is an object of the page, in which the table keeps by which column it is sorted.
 */
export function table({ label, columns, rows, keyOf, state, redraw, empty = "nothing yet", rowProps = () => ({}) }) {
  const by = columns.find(({ name }) => name === state.by);
  const sorted = by?.value ? [...rows].sort((a, b) => compare(by.value(a), by.value(b)) * (state.down ? -1 : 1)) : rows;
  const sort = (name) => {
    Object.assign(state, { down: state.by === name ? !state.down : false, by: name });
    redraw();
  };
  const header = ({ name, value, number }) =>
    h("th", { key: name, scope: "col", class: number ? "number" : null, "aria-sort": state.by === name ? (state.down ? "descending" : "ascending") : null },
      value ? h("button", { class: "sort", onClick: () => sort(name) }, name) : name);
  const row = (item) => h("tr", { key: keyOf(item), ...rowProps(item) },
    columns.map(({ name, cell, value, number }) => h("td", { key: name, class: number ? "number" : null, "data-name": name }, (cell ?? value)(item))));
  return h("div", { class: "table", tabindex: 0, role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, columns.map(header))), h("tbody", {}, sorted.map(row))),
    rows.length ? null : h("p", { class: "empty" }, empty));
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === undefined || a === null) return -1;
  if (b === undefined || b === null) return 1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

/** A list of names and values that can be searched. */
export function settings(pairs, state, redraw, label) {
  const wanted = (state.filter ?? "").toLowerCase();
  const rows = pairs.filter(([name, value]) => `${name} ${value}`.toLowerCase().includes(wanted));
  return [
    h("input", { type: "search", class: "filter", placeholder: "filter", "aria-label": `filter ${label}`, value: state.filter ?? "", onInput: (event) => { state.filter = event.target.value; redraw(); } }),
    table({
      label, rows, state, redraw, keyOf: ([name]) => name, empty: wanted ? "nothing matches" : "nothing is set",
      columns: [
        { name: "Key", value: ([name]) => name, cell: ([name]) => h("code", {}, name) },
        { name: "Value", value: ([, value]) => String(value), cell: ([, value]) => h("code", {}, String(value)) },
      ],
    }),
  ];
}
