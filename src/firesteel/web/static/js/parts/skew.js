// Skew at a glance: one column per subtask, a line at the mean, and how far the largest is above it.

import { h } from "../dom.js";

const HEIGHT = 56;
const LARGEST = 1.5; // from this multiple of the mean on, a column is marked

/** max / mean, 1 if all are alike; undefined without values. */
export function skewOf(values) {
  const known = values.filter((value) => Number.isFinite(value));
  const sum = known.reduce((total, value) => total + value, 0);
  return known.length && sum > 0 ? Math.max(...known) / (sum / known.length) : undefined;
}

/** A strip of columns: {label, values, show: value -> text}. */
export function skewStrip({ label, values, show }) {
  const most = Math.max(...values.filter(Number.isFinite), 0);
  const mean = values.reduce((sum, value) => sum + (value || 0), 0) / (values.length || 1);
  const skew = skewOf(values);
  const isSkewed = values.length > 1 && skew >= LARGEST;
  const width = 100 / Math.max(values.length, 1);
  const column = (value, at) => {
    const height = most > 0 ? ((value || 0) / most) * (HEIGHT - 4) : 0;
    return h("rect", { key: at, x: at * width + width * 0.08, y: HEIGHT - height, width: width * 0.84, height, class: isSkewed && value > mean * LARGEST ? "large" : null },
      h("title", {}, `subtask ${at}: ${show(value)}`));
  };
  const level = most > 0 ? HEIGHT - (mean / most) * (HEIGHT - 4) : HEIGHT;
  return h("figure", { class: `strip ${isSkewed ? "skewed" : ""}`, key: label },
    h("figcaption", {}, h("span", {}, label), h("strong", {}, skew === undefined ? "–" : `×${skew.toFixed(skew < 10 ? 1 : 0)}`)),
    h("svg", { viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${label}: the largest subtask has ${skew === undefined ? "no" : skew.toFixed(1)} times the mean` },
      values.map(column),
      h("line", { x1: 0, x2: 100, y1: level, y2: level, class: "mean" })),
    h("small", {}, `most ${show(most)} · mean ${show(mean)}`));
}
