// A flame graph: frames as boxes, as wide as they are often in samples, callers below what they call.

import { h } from "../dom.js";

const ROW = 22;
const NARROWEST = 0.0015; // of the whole width; smaller boxes cannot be seen

/** The boxes of a tree below `root`: [{node, depth, start, share, path}], shares of the root's value. */
export function boxes(root) {
  const found = [];
  const visit = (node, depth, start, path) => {
    const share = root.value ? node.value / root.value : 0;
    if (share < NARROWEST) return;
    found.push({ node, depth, start, share, path });
    let at = start;
    (node.children ?? []).forEach((child, index) => {
      visit(child, depth + 1, at, [...path, index]);
      at += root.value ? child.value / root.value : 0;
    });
  };
  visit(root, 0, 0, []);
  return found;
}

/** The node that a path of child numbers leads to; the root if there is none. */
export function follow(root, path = []) {
  let node = root;
  for (const index of path) {
    if (!node.children?.[index]) return root;
    node = node.children[index];
  }
  return node;
}

/** Class and function without the modules above them: boxes are narrow, and the whole name is shown when one points at it. */
export const shortName = (name) => name.replaceAll("<locals>.", "").split(".").slice(-2).join(".");

/** How many samples have a frame whose name has `wanted` in it; each counts once, however often it is in a stack. */
export function matching(node, wanted) {
  if (node.name.toLowerCase().includes(wanted)) return node.value;
  return (node.children ?? []).reduce((sum, child) => sum + matching(child, wanted), 0);
}

function hue(name) {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 7;
  return sum;
}

/** `state` keeps the frame that is looked at ({path, filter}). */
export function flame(tree, state, redraw) {
  const root = follow(tree, state.path);
  const all = boxes(root);
  const height = (Math.max(...all.map(({ depth }) => depth), 0) + 1) * ROW;
  const wanted = state.filter.toLowerCase();
  const enter = (path) => {
    state.path = path.length ? [...(state.path ?? []), ...path] : (state.path ?? []).slice(0, -1);
    redraw();
  };
  const box = ({ node, depth, start, share, path }) => {
    const found = wanted && node.name.toLowerCase().includes(wanted);
    const text = `${node.name}: ${node.value} (${(share * 100).toFixed(1)} %)`;
    return h("button", { key: path.join("."), type: "button", class: `frame h${hue(node.name)} ${found ? "found" : ""}`, title: text, "aria-label": text, onClick: () => enter(path),
      style: { left: `${(start * 100).toFixed(3)}%`, width: `${(share * 100).toFixed(3)}%`, bottom: `${depth * ROW}px` } }, share > 0.02 ? shortName(node.name) : "");
  };
  const found = wanted ? matching(root, wanted) : 0;
  return [
    h("input", { type: "search", class: "filter", placeholder: "highlight", "aria-label": "highlight frames", value: state.filter, onInput: (event) => { state.filter = event.target.value; redraw(); } }),
    h("span", { class: "quiet-text flame-found", role: "status" }, wanted ? ` in ${found} samples (${(root.value ? (found / root.value) * 100 : 0).toFixed(1)} %)` : ""),
    h("div", { class: "flame", style: { height: `${height}px` }, role: "group", "aria-label": "frames" }, all.map(box)),
  ];
}
