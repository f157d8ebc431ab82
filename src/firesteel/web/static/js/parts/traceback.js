// A traceback as people read it: frames of the program stand out, those of libraries are folded, the last words are loud.

import { h } from "../dom.js";

const FRAME = /^\s*File "(.+)", line (\d+)(?:, in (.+))?/;
const JAVA = /^\s+at [\w$.<>/]+\(|^\s*\.\.\. \d+ more/;
const LIBRARY = /[\\/](site-packages|dist-packages|lib[\\/]python3[^\\/]*|firesteel[\\/](runtime|spark|datastream))[\\/]|^<frozen/;

/** The lines of a traceback in groups: {kind: "text" | "own" | "library", lines}; neighbours of one kind are one group. */
export function groups(trace) {
  const found = [];
  let frame = null; // the kind of the Python frame whose lines of code may follow
  for (const line of trace.replace(/\n+$/, "").split("\n")) {
    const match = FRAME.exec(line);
    if (match) frame = LIBRARY.test(match[1]) ? "library" : "own";
    else if (!/^\s{4,}\S/.test(line) || JAVA.test(line)) frame = null;
    const kind = frame ?? (JAVA.test(line) ? "library" : "text");
    if (found.at(-1)?.kind === kind) found.at(-1).lines.push(line);
    else found.push({ kind, lines: [line] });
  }
  return found;
}

const LOUD = /^([\w.]+(Error|Exception|Failure|Interrupt)|Caused by: [\w.$]+)\b/;

/** `whole` shows library frames, too; without it they are one line each that `open` unfolds. */
export function traceback(trace, whole, open) {
  const line = (text, at) => h("span", { key: at, class: LOUD.test(text) ? "loud" : null }, `${text}\n`);
  const show = ({ kind, lines }, at) => {
    if (kind === "library" && !whole && lines.length > 2) return h("button", { key: at, type: "button", class: "folded", onClick: open }, `⋯ ${lines.length} lines of libraries`);
    return h("span", { key: at, class: kind }, lines.map(line));
  };
  return h("pre", { class: "traceback", tabindex: 0, "aria-label": "traceback" }, groups(trace).map(show));
}
