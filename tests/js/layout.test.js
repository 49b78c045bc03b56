/** Graphs of workflows as they would be drawn, in numbers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layoutGraph } from '../../src/interlock/gateway/static/js/runs/graph-layout.js';

const KINDS = ['step', 'decision', 'merge', 'end', 'subworkflow'];
const MILLISECONDS_AT_MOST = 5_000;

/** The layout of a graph, and what must hold for every one. */
function drawn(count, pairs) {
  const named = Array.from({ length: count }, (_, n) => ({ name: `n${n}`, kind: KINDS[n % KINDS.length] }));
  const lines = pairs.map(([a, b]) => ({ from: `n${a}`, to: `n${b}`, label: `${a} to ${b}` }));
  const found = layoutGraph({ nodes: named, edges: lines, start: 'n0' }, (edge) => edge.label ?? '');
  const { left, width, height, nodes, edges } = found;
  assert.equal(nodes.length, count);
  assert.equal(edges.length, pairs.length);
  const right = left + width;
  const rows = new Map();
  for (const { x, y, width: wide } of nodes) {
    assert.ok(left <= x - wide / 2 && x + wide / 2 <= right && 0 < y && y < height);
    rows.set(y, [...(rows.get(y) ?? []), { x, wide }]);
  }
  for (const row of rows.values()) {
    row.sort((one, other) => one.x - other.x);
    row.slice(1).forEach((other, n) => assert.ok(row[n].x + row[n].wide / 2 < other.x - other.wide / 2));
  }
  for (const { path, head, reach } of edges) {
    assert.doesNotMatch(path + head, /NaN|undefined|Infinity/);
    assert.ok(reach.every((x) => left <= x && x <= right));
  }
  return found;
}

/** So many of these, the same each time. */
function sample(items, size) {
  let seed = 7;
  const next = (below) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  const left = [...items];
  return Array.from({ length: Math.min(size, items.length) }, () => left.splice(next(left.length), 1)[0]);
}

const pairsOf = (count, isWanted = (_a, _b) => true) =>
  Array.from({ length: count * count }, (_, n) => [Math.floor(n / count), n % count]).filter(([a, b]) => isWanted(a, b));

test('a way back is drawn beside the nodes and others lead down', () => {
  const { nodes, edges } = drawn(5, [[0, 1], [1, 2], [2, 3], [3, 4], [3, 1], [2, 2]]);
  const place = new Map(nodes.map((each) => [each.node.name, each]));
  const back = edges.filter(({ isBack }) => isBack);
  assert.deepEqual(back.map(({ edge }) => `${edge.from} ${edge.to}`).sort(), ['n2 n2', 'n3 n1']);
  for (const { edge, isBack } of edges) if (!isBack) assert.ok(place.get(edge.from).y < place.get(edge.to).y);
  // Lanes of ways that pass one another are apart.
  const lanes = back.map(({ at }) => at.x);
  assert.ok(Math.abs(lanes[0] - lanes[1]) > 20);
  assert.ok(Math.min(...lanes) > Math.max(...nodes.map(({ x, width }) => x + width / 2)));
});

test('any graph can be drawn: ends that nothing leads to, single nodes, knots, and the largest there may be', () => {
  drawn(1, []);
  drawn(4, [[0, 1], [2, 3], [3, 2]]);
  for (const count of [3, 6, 12, 25]) drawn(count, sample(pairsOf(count), 2 * count));
  const began = performance.now();
  drawn(200, sample(pairsOf(200, (a, b) => Math.abs(a - b) < 12), 1000));
  assert.ok(performance.now() - began < MILLISECONDS_AT_MOST);
});
