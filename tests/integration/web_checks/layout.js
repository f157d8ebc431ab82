// Boxes of a dataflow do not overlap, edges go from left to right, long edges go around boxes, feedback is drawn as such.
const { layout } = await import("./js/parts/layout.js");
const failures = [];
const check = (claim, isTrue) => isTrue || failures.push(claim);
const nodes = (...ids) => ids.map((id) => ({ id, width: 250, height: 140 }));
const edges = (...pairs) => pairs.map(([source, target]) => ({ source, target }));
const apart = (a, b) => a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y + 0.01 || b.y + b.height <= a.y + 0.01;

check("nothing is laid out as nothing", layout([], []).width === 0);
const many = nodes(...Array.from({ length: 120 }, (_, at) => `v${at}`));
const tree = many.slice(1).flatMap((_, at) => [[`v${at >> 1}`, `v${at + 1}`], ...(at % 6 === 5 ? [[`v${at - 4}`, `v${at + 1}`]] : [])]);
const large = layout(many, edges(...tree));
const boxes = [...large.nodes.values()];
check("all boxes are placed", boxes.length === 120);
check("boxes do not overlap", boxes.every((a, at) => boxes.slice(at + 1).every((b) => apart(a, b))));
check("edges go to the right", large.edges.every(({ source, target }) => large.nodes.get(source).x + 250 <= large.nodes.get(target).x));
check("boxes are inside", boxes.every((box) => box.x >= 0 && box.y >= -0.01 && box.x + box.width <= large.width + 0.01 && box.y + box.height <= large.height + 0.01));

const skipping = layout(nodes("a", "b", "c"), edges(["a", "b"], ["b", "c"], ["a", "c"]));
const middle = skipping.nodes.get("b");
const long = skipping.edges.find(({ source, target }) => source === "a" && target === "c");
const bend = long.points[1];
check("a long edge goes around what is between", long.points.length === 3 && (bend.y < middle.y || bend.y > middle.y + middle.height));

const crossed = layout(nodes("a", "b", "c", "d"), edges(["a", "d"], ["b", "c"])).nodes;
check("edges do not cross without need", (crossed.get("a").y - crossed.get("b").y) * (crossed.get("d").y - crossed.get("c").y) > 0);
const cycle = layout(nodes("a", "b", "c"), edges(["a", "b"], ["b", "c"], ["c", "b"]));
check("feedback is drawn as such", cycle.edges.filter(({ isBack }) => isBack).length === 1);
check("a straight line stays straight", new Set([...layout(nodes("a", "b", "c"), edges(["a", "b"], ["b", "c"])).nodes.values()].map(({ y }) => y)).size === 1);
return failures;
