// Elements described as plain values, and brought onto the page by changing only what differs.
//
// A description is {tag, props, children, key}. Everything that is not a description becomes a text node, so nothing that a
// server says is ever read as HTML. Focus, scrolling and open parts survive an update, because elements stay the same.

const SVG = "http://www.w3.org/2000/svg";
const shown = new WeakMap(); // element -> the descriptions that show() has put into it

/** A description of one element; null and false among the children keep the place of something that is not shown now. */
export function h(tag, props, ...children) {
  const { key = null, ...rest } = props ?? {};
  return { tag, key, props: rest, children: children.flat(Infinity) };
}

/** Make the children of an element be what the descriptions say. */
export function show(parent, ...children) {
  const next = children.flat(Infinity);
  const focused = document.activeElement;
  patchChildren(parent, shown.get(parent) ?? [], next, parent.namespaceURI === SVG);
  shown.set(parent, next);
  // An element that has moved to another place has lost the focus.
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function isText(node) {
  return node === null || typeof node !== "object";
}

function isNothing(node) {
  return node === null || node === undefined || node === false || node === true;
}

function make(node, inSvg) {
  if (isNothing(node)) return document.createComment("");
  if (isText(node)) return document.createTextNode(String(node));
  const svg = inSvg || node.tag === "svg";
  const element = svg ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  for (const child of node.children) element.append(make(child, svg));
  for (const [name, value] of Object.entries(node.props)) setProp(element, name, undefined, value);
  node.props.ref?.(element);
  return element;
}

function sameKind(old, next) {
  if (isNothing(old) || isNothing(next)) return isNothing(old) && isNothing(next);
  if (isText(old) || isText(next)) return isText(old) && isText(next);
  return old.tag === next.tag && old.key === next.key;
}

function patch(dom, old, next, inSvg) {
  if (isNothing(next)) return;
  if (isText(next)) {
    if (String(old) !== String(next)) dom.data = String(next);
    return;
  }
  const names = new Set([...Object.keys(old.props), ...Object.keys(next.props)]);
  patchChildren(dom, old.children, next.children, inSvg || next.tag === "svg");
  for (const name of names) setProp(dom, name, old.props[name], next.props[name]);
}

function patchChildren(parent, old, next, inSvg) {
  if (!old.length && !next.length) return; // what is in there is somebody else's: see show()
  const doms = [...parent.childNodes];
  const keyed = new Map();
  const plain = [];
  old.forEach((node, at) => {
    if (!isNothing(node) && !isText(node) && node.key !== null) keyed.set(node.key, [node, doms[at]]);
    else plain.push([node, doms[at]]);
  });
  if (!old.length) doms.forEach((dom) => dom.remove());
  const kept = new Set();
  const wanted = next.map((node) => {
    const keyOf = isNothing(node) || isText(node) ? null : node.key;
    const [before, dom] = (keyOf !== null ? keyed.get(keyOf) : plain.shift()) ?? [];
    keyed.delete(keyOf); // a key that comes twice must not show one element in two places
    if (dom && sameKind(before, node)) {
      kept.add(dom);
      patch(dom, before, node, inSvg);
      return dom;
    }
    return make(node, inSvg);
  });
  if (old.length) doms.forEach((dom) => kept.has(dom) || dom.remove());
  wanted.forEach((dom, at) => {
    if (parent.childNodes[at] !== dom) parent.insertBefore(dom, parent.childNodes[at] ?? null);
  });
}

// Properties of the element rather than attributes: what the user changed must not be undone by an equal attribute.
const LIVE = new Set(["value", "checked", "indeterminate", "selected"]);

function setProp(element, name, old, value) {
  if (name === "ref") return;
  if (name.startsWith("on")) setListener(element, name.slice(2).toLowerCase(), value);
  else if (name === "style") setStyle(element, old ?? {}, value ?? {});
  else if (LIVE.has(name)) {
    if (old !== value && value !== undefined && element[name] !== value) element[name] = value;
  } else if (old !== value) {
    if (value === undefined || value === null || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

// Through the object model, which a strict Content-Security-Policy allows, unlike a style attribute.
function setStyle(element, old, next) {
  for (const name of Object.keys(old)) if (!(name in next)) element.style.removeProperty(name);
  for (const [name, value] of Object.entries(next)) if (old[name] !== value) element.style.setProperty(name, value);
}

function setListener(element, type, listener) {
  const all = (element.listenersOfPage ??= {});
  if (!(type in all)) element.addEventListener(type, (event) => all[type]?.(event), { passive: false });
  all[type] = listener;
}
