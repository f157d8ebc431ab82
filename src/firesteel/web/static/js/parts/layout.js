// Places the nodes of a dataflow in layers from left to right. Pure: no document, no measuring.
//
// The steps are the usual ones: turn feedback edges around, put every node behind its inputs, cut long edges into pieces of
// one layer each, order the layers so that few edges cross, and move nodes towards their neighbours.

const GAP_X = 96;
const GAP_Y = 28;
const SWEEPS = 8;

/** nodes: [{id, width, height}], edges: [{source, target}] -> {nodes: Map id -> box, edges: [{...edge, points}], width, height}. */
export function layout(nodes, edges) {
  const known = new Set(nodes.map(({ id }) => id));
  const real = edges.filter(({ source, target }) => known.has(source) && known.has(target) && source !== target);
  const forward = turnFeedback(nodes, real);
  const layerOf = assignLayers(nodes, forward);
  const { layers, segments, chains } = cutLongEdges(nodes, forward, layerOf);
  orderLayers(layers, segments);
  const size = place(layers, segments);
  const boxes = new Map(nodes.map(({ id }) => [id, boxOf(layers, id)]));
  return { nodes: boxes, edges: chains.map((chain) => route(chain)), ...size };
}

function turnFeedback(nodes, edges) {
  const out = groupBy(edges, "source");
  const state = new Map(); // 1 while on the path from a root, 2 when done
  const back = new Set();
  const visit = (root) => {
    const stack = [[root, 0]];
    state.set(root, 1);
    while (stack.length) {
      const top = stack.at(-1);
      const edge = out.get(top[0])?.[top[1]++];
      if (!edge) {
        state.set(top[0], 2);
        stack.pop();
      } else if (state.get(edge.target) === 1) back.add(edge);
      else if (!state.has(edge.target)) {
        state.set(edge.target, 1);
        stack.push([edge.target, 0]);
      }
    }
  };
  const targets = new Set(edges.map(({ target }) => target));
  const roots = [...nodes.filter(({ id }) => !targets.has(id)), ...nodes];
  for (const { id } of roots) if (!state.has(id)) visit(id);
  return edges.map((edge) => {
    const isBack = back.has(edge);
    return { edge, isBack, from: isBack ? edge.target : edge.source, to: isBack ? edge.source : edge.target };
  });
}

function groupBy(items, key) {
  const groups = new Map();
  for (const item of items) {
    if (!groups.has(item[key])) groups.set(item[key], []);
    groups.get(item[key]).push(item);
  }
  return groups;
}

function assignLayers(nodes, forward) {
  const layer = new Map(nodes.map(({ id }) => [id, 0]));
  const order = topological(nodes, forward);
  const into = groupBy(forward, "to");
  const outOf = groupBy(forward, "from");
  for (const id of order) for (const { from } of into.get(id) ?? []) layer.set(id, Math.max(layer.get(id), layer.get(from) + 1));
  // A source stands right before the first who reads it, instead of far away at the left.
  for (const id of [...order].reverse()) {
    const readers = outOf.get(id) ?? [];
    if (!into.has(id) && readers.length) layer.set(id, Math.min(...readers.map(({ to }) => layer.get(to))) - 1);
  }
  return layer;
}

function topological(nodes, forward) {
  const missing = new Map(nodes.map(({ id }) => [id, 0]));
  for (const { to } of forward) missing.set(to, missing.get(to) + 1);
  const out = groupBy(forward, "from");
  const ready = nodes.map(({ id }) => id).filter((id) => missing.get(id) === 0);
  for (let at = 0; at < ready.length; at++) {
    for (const { to } of out.get(ready[at]) ?? []) {
      missing.set(to, missing.get(to) - 1);
      if (missing.get(to) === 0) ready.push(to);
    }
  }
  return ready;
}

function cutLongEdges(nodes, forward, layerOf) {
  const layers = [];
  const put = (cell, at) => {
    while (layers.length <= at) layers.push([]);
    layers[at].push(cell);
    return cell;
  };
  const cells = new Map(nodes.map((node) => [node.id, put({ id: node.id, width: node.width, height: node.height, isNode: true }, layerOf.get(node.id))]));
  const segments = [];
  const chains = forward.map((turned) => {
    const chain = [cells.get(turned.from)];
    for (let at = layerOf.get(turned.from) + 1; at < layerOf.get(turned.to); at++) chain.push(put({ width: 0, height: 10, isNode: false }, at));
    chain.push(cells.get(turned.to));
    for (let at = 1; at < chain.length; at++) segments.push([chain[at - 1], chain[at]]);
    return { ...turned, chain };
  });
  return { layers, segments, chains };
}

function neighbours(segments) {
  const before = new Map();
  const after = new Map();
  const add = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
  for (const [from, to] of segments) {
    add(after, from, to);
    add(before, to, from);
  }
  return { before, after };
}

function orderLayers(layers, segments) {
  const { before, after } = neighbours(segments);
  const number = () => layers.forEach((layer) => layer.forEach((cell, at) => (cell.order = at)));
  number();
  let best = layers.map((layer) => [...layer]);
  let fewest = crossings(layers, after);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const middle = (cell) => mean(((down ? before : after).get(cell) ?? [cell]).map(({ order }) => order));
      const wanted = new Map(layer.map((cell) => [cell, middle(cell)]));
      layer.sort((a, b) => wanted.get(a) - wanted.get(b) || a.order - b.order);
      layer.forEach((cell, at) => (cell.order = at));
    }
    const now = crossings(layers, after);
    if (now < fewest) {
      fewest = now;
      best = layers.map((layer) => [...layer]);
    }
  }
  best.forEach((layer, at) => layers[at].splice(0, layer.length, ...layer));
  number();
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** How often edges between neighbouring layers cross. */
function crossings(layers, after) {
  let total = 0;
  for (const layer of layers) {
    const ends = layer.flatMap((cell) => (after.get(cell) ?? []).map(({ order }) => order).sort((a, b) => a - b));
    for (let at = 0; at < ends.length; at++) for (let later = at + 1; later < ends.length; later++) if (ends[later] < ends[at]) total += 1;
  }
  return total;
}

function place(layers, segments) {
  let x = 0;
  for (const layer of layers) {
    const width = Math.max(0, ...layer.map((cell) => cell.width));
    let y = 0;
    for (const cell of layer) {
      Object.assign(cell, { x: x + (cell.isNode ? 0 : width / 2), y, span: width });
      y += cell.height + GAP_Y;
    }
    x += width + GAP_X;
  }
  straighten(layers, segments);
  const cells = layers.flat();
  const top = Math.min(...cells.map((cell) => cell.y), Infinity);
  if (cells.length) cells.forEach((cell) => (cell.y -= top));
  return { width: Math.max(0, x - GAP_X), height: Math.max(0, ...cells.map((cell) => cell.y + cell.height)) };
}

/** Move every cell towards the middle of its neighbours, keeping order and distance. */
function straighten(layers, segments) {
  const { before, after } = neighbours(segments);
  const centre = (cell) => cell.y + cell.height / 2;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const near = (cell) => (down ? before.get(cell) ?? after.get(cell) : after.get(cell) ?? before.get(cell)) ?? [cell];
      settle(layer, layer.map((cell) => mean(near(cell).map(centre)) - cell.height / 2));
    }
  }
}

/** Wanted positions made possible: cells that would overlap become a block around the mean of what they want. */
function settle(layer, wanted) {
  const blocks = [];
  layer.forEach((cell, at) => {
    let block = { cells: [cell], start: wanted[at], sum: wanted[at], size: cell.height + GAP_Y };
    for (let last = blocks.at(-1); last && last.start + last.size > block.start; last = blocks.at(-1)) {
      blocks.pop();
      const sum = last.sum + block.sum - last.size * block.cells.length;
      const cells = [...last.cells, ...block.cells];
      block = { cells, sum, start: sum / cells.length, size: last.size + block.size };
    }
    blocks.push(block);
  });
  for (const { cells, start } of blocks) {
    let y = start;
    for (const cell of cells) {
      cell.y = y;
      y += cell.height + GAP_Y;
    }
  }
}

function boxOf(layers, id) {
  const at = layers.findIndex((layer) => layer.some((cell) => cell.id === id));
  const { x, y, width, height, order } = layers[at].find((cell) => cell.id === id);
  return { id, x, y, width, height, layer: at, order };
}

function route({ edge, isBack, chain }) {
  const points = chain.map((cell, at) => {
    const y = cell.y + cell.height / 2;
    if (!cell.isNode) return { x: cell.x, y };
    return { x: at === 0 ? cell.x + cell.width : cell.x, y };
  });
  return { ...edge, isBack, points: isBack ? points.reverse() : points };
}
