// Lines over time in SVG: several series, a time axis that moves, values under the pointer or the arrow keys.

import { h } from "../dom.js";
import * as format from "../format.js";

const LEFT = 62;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 24;
const COLOURS = 8; // series are coloured by the classes c0 to c7

/** Round numbers from `low` to `high`, about `wanted` of them. */
export function ticks(low, high, wanted = 4) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600].map((seconds) => seconds * 1000);

/** Moments for the time axis: multiples of whole seconds or minutes. */
export function timeTicks(from, to, wanted = 5) {
  const step = TIME_STEPS.find((each) => each >= (to - from) / wanted) ?? TIME_STEPS.at(-1);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

/** The lowest and highest value, opened a little, and with zero if it is near. */
export function range(values) {
  const known = values.filter(Number.isFinite);
  if (!known.length) return [0, 1];
  let low = Math.min(...known);
  let high = Math.max(...known);
  if (low >= 0 && low < high * 0.6) low = 0;
  if (low === high) [low, high] = low === 0 ? [0, 1] : [Math.min(low * 0.9, low * 1.1), Math.max(low * 0.9, low * 1.1)];
  return [low, high + (high - low) * 0.06];
}

/** A path through points; a gap where a value is missing. */
export function pathOf(points, x, y) {
  let down = false;
  return points.map(([at, value]) => {
    if (!Number.isFinite(value)) {
      down = false;
      return "";
    }
    const command = `${down ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    down = true;
    return command;
  }).join("");
}

function nearest(points, at) {
  let best = points[0];
  for (const point of points) if (Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
  return best;
}

/** From when a chart begins: as early as asked for, but not long before there were values. */
export function beginning(series, to, span, least = 20_000) {
  const first = Math.min(to, ...series.filter(({ points }) => points.length).map(({ points }) => points[0][0]));
  return Math.max(to - span, Math.min(first, to - least));
}

/**
 * A chart: {label, series: [{name, points: [[ms, value]]}], from, to, width, height, show: value -> text, limits: [low, high]}.
 *
 * `hover` is an object of the page that keeps the moment that is looked at; several charts may share it.
 */
export function chart({ label, series, from, to, width, height = 190, show = format.count, limits, hover, redraw }) {
  const [low, high] = limits ?? range(series.flatMap(({ points }) => points.filter(([at]) => at >= from).map(([, value]) => value)));
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - ((value - low) / (high - low)) * (height - BOTTOM - TOP);
  const look = (at) => {
    hover.at = at === undefined ? undefined : Math.min(to, Math.max(from, at));
    redraw();
  };
  const toMoment = (event) => from + ((event.offsetX - LEFT) / (width - LEFT - RIGHT)) * (to - from);
  const onKey = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") look(undefined);
    if (!step) return;
    event.preventDefault();
    look((hover.at ?? to) + (step * (to - from)) / 40);
  };
  return h("div", { class: "chart" },
    h("svg", { width, height, tabindex: 0, role: "img", "aria-label": `${label}; arrow keys move along the time axis`, onPointermove: (event) => look(toMoment(event)), onPointerleave: () => look(undefined), onKeydown: onKey },
      ticks(low, high).map((value) => h("g", { class: "tick", key: `y${value}` },
        h("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        h("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, show(value)))),
      timeTicks(from, to, width / 110).map((at) => h("text", { class: "when", key: `x${at}`, x: x(at), y: height - 6, "text-anchor": "middle" }, format.clock(at))),
      series.map(({ name, points }, at) => h("path", { key: name, class: `line c${at % COLOURS}`, d: pathOf(points.filter(([when]) => when >= from), x, y) })),
      hover.at === undefined ? null : h("line", { class: "cursor", x1: x(hover.at), x2: x(hover.at), y1: TOP, y2: height - BOTTOM })),
    legend(series, hover, show));
}

/** The newest values, or those under the cursor. */
function legend(series, hover, show) {
  const value = ({ points }) => (points.length ? (hover.at === undefined ? points.at(-1) : nearest(points, hover.at)) : [0, undefined]);
  return h("ul", { class: "legend" },
    series.map((each, at) => h("li", { key: each.name }, h("i", { class: `c${at % COLOURS}` }), h("span", {}, each.name), h("b", {}, show(value(each)[1])))),
    h("li", { key: "at", class: "when" }, hover.at === undefined ? "now" : format.clock(hover.at)));
}
