// Text that has to fit: measured on a canvas, cut with an ellipsis; and names of operators taken apart.

let context;

function widthOf(text, font) {
  context ??= document.createElement("canvas").getContext("2d");
  context.font = font;
  return context.measureText(text).width;
}

/** The text, or its beginning and "…", so that it is no wider than `width`. */
export function fit(text, width, font) {
  if (widthOf(text, font) <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (widthOf(`${text.slice(0, middle)}…`, font) <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low).trimEnd()}…`;
}

const ENTITIES = { "&gt;": ">", "&lt;": "<", "&amp;": "&", "&quot;": '"', "&#39;": "'" };

/**
 * The operators of a chain, one per line, from a plan's description (lines divided by "<br/>") or from a vertex's name.
 *
 * A description is taken as text: marks in front of its lines and entities are read, anything else stays what it is.
 */
export function chainOf(name, description) {
  const text = description || name || "";
  const lines = /<br\s*\/?>/.test(text) ? text.split(/<br\s*\/?>/) : splitChain(name || text);
  return lines
    .map((line) => line.replace(/&(gt|lt|amp|quot|#39);/g, (entity) => ENTITIES[entity]).replace(/^[\s:]*[+:]-\s*/, "").trim())
    .filter(Boolean);
}

/** "a -> (b, c -> d)" at its arrows, but not inside brackets. */
function splitChain(name) {
  const parts = [""];
  let depth = 0;
  for (let at = 0; at < name.length; at++) {
    if ("([{".includes(name[at])) depth += 1;
    if (")]}".includes(name[at])) depth = Math.max(0, depth - 1);
    if (depth === 0 && name.startsWith(" -> ", at)) {
      parts.push("");
      at += 3;
    } else parts[parts.length - 1] += name[at];
  }
  return parts;
}
