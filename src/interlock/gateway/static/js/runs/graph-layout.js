/**
 * A graph in layers, from top to bottom. Pure: nodes and edges in, places and paths out.
 *
 * @typedef {{name: string, kind: string}} Node
 * @typedef {{from: string, to: string, edges?: any[]}} Edge
 * @typedef {{node: Node|null, layer: number, x: number, width: number, height: number, up: Item[], down: Item[]}} Item
 * @typedef {{node: Node, x: number, y: number, width: number, height: number}} Placed where its middle is
 * @typedef {{edge: Edge, path: string, head: string, isBack: boolean, words: string, at: {x: number, y: number, anchor: string}}} Drawn
 */
import { routeBackEdges, routeForwardEdge } from './edge-routing.js';

const SIZES = { step: [204, 56], subworkflow: [204, 56], decision: [178, 52], merge: [120, 34], end: [140, 46] };
const STOP = [14, 0];
const LAYER = 56;
export const LAYER_GAP = 54;
const ASIDE = 30;
const MARGIN = 10;
const TOP = 30;
const SWEEPS = 24;
const LETTER = 6.5;

/**
 * @param {{nodes: Node[], edges: Edge[], start: string}} graph
 * @param {(edge: Edge) => string} words what stands at an edge
 * @returns {{left: number, width: number, height: number, nodes: Placed[], edges: Drawn[], entry: {x: number, y: number}}}
 */
export function layoutGraph(graph, words) {
  const edges = graph.edges.map((edge) => ({ edge, words: words(edge), wide: words(edge).length * LETTER }));
  const isBack = backEdges(graph);
  const layer = layersOf(graph, isBack);
  const items = new Map(graph.nodes.map((node) => [node.name, item(node, layer.get(node.name), SIZES[node.kind] ?? SIZES.step)]));
  const forward = edges.filter(({ edge }) => !isBack.has(edge));
  const chains = forward.map((each) => chainOf(each.edge, items));
  const rows = rowsOf([...items.values(), ...chains.flatMap((chain) => chain.slice(1, -1))]);
  arrange(rows);
  place(rows);
  const top = (n) => TOP + n * (LAYER + LAYER_GAP);
  const middle = (each) => top(each.layer) + LAYER / 2;
  const drawn = forward.map((each, n) => routeForwardEdge(each, chains[n], { top, middle, layer: LAYER }));
  const back = edges.filter(({ edge }) => isBack.has(edge)).map((each) => ({ ...each, from: items.get(each.edge.from), to: items.get(each.edge.to) }));
  drawn.push(...routeBackEdges(back, rows, middle));
  const placed = [...items.values()].map((each) => ({ node: each.node, x: each.x, y: middle(each), width: each.width, height: each.height }));
  return framed(placed, drawn, items.get(graph.start), top(rows.length) - LAYER_GAP);
}

/** @param {Node|null} node @param {number} layer @param {number[]} size */
function item(node, layer, [width, height]) {
  return { node, layer, x: 0, width, height, up: [], down: [] };
}

/** The edges that lead back to where one came from: found by walking from the start, in the order of the file. */
function backEdges({ nodes, edges, start }) {
  const out = Map.groupBy(edges, ({ from }) => from);
  const seen = new Map();
  const back = new Set();
  const walk = (name) => {
    seen.set(name, 'open');
    for (const edge of out.get(name) ?? []) {
      if (seen.get(edge.to) === 'open') back.add(edge);
      else if (!seen.has(edge.to)) walk(edge.to);
    }
    seen.set(name, 'done');
  };
  for (const name of [start, ...nodes.map((node) => node.name)]) if (!seen.has(name)) walk(name);
  return back;
}

/** As far down as the longest way to it. */
function layersOf({ nodes, edges }, isBack) {
  const into = Map.groupBy(edges.filter((edge) => !isBack.has(edge)), ({ to }) => to);
  const found = new Map();
  const depth = (name) => {
    if (!found.has(name)) found.set(name, Math.max(-1, ...(into.get(name) ?? []).map(({ from }) => depth(from))) + 1);
    return found.get(name);
  };
  for (const { name } of nodes) depth(name);
  return found;
}

/** Where an edge passes layers, it has a stop in each, so that it goes around their nodes. */
function chainOf({ from, to }, items) {
  const source = items.get(from);
  const target = items.get(to);
  const chain = [source];
  for (let n = source.layer + 1; n < target.layer; n++) chain.push(item(null, n, STOP));
  chain.push(target);
  for (let n = 1; n < chain.length; n++) {
    chain[n].up.push(chain[n - 1]);
    chain[n - 1].down.push(chain[n]);
  }
  return chain;
}

function rowsOf(items) {
  const rows = Map.groupBy(items, ({ layer }) => layer);
  return [...rows.keys()].toSorted((a, b) => a - b).map((n) => rows.get(n));
}

const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

/** Each row in the order of its neighbours' middles, from above and from below by turns. */
function arrange(rows) {
  const number = (row) => row.forEach((each, n) => (each.x = n));
  rows.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const side = sweep % 2 ? 'down' : 'up';
    for (const row of sweep % 2 ? rows.toReversed() : rows) {
      const wanted = new Map(row.map((each) => [each, each[side].length ? mean(each[side].map(({ x }) => x)) : each.x]));
      row.sort((a, b) => wanted.get(a) - wanted.get(b));
      number(row);
    }
  }
}

/** Each as near to its neighbours as the others in its row let it. */
function place(rows) {
  for (const row of rows) spread(row, row.map(() => 0));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const row of sweep % 2 ? rows.toReversed() : rows) {
      spread(row, row.map((each) => {
        const near = sweep < SWEEPS - 2 ? each[sweep % 2 ? 'down' : 'up'] : [...each.up, ...each.down];
        return near.length ? mean(near.map(({ x }) => x)) : each.x;
      }));
    }
  }
}

/** Pushed apart from the left and from the right; the middle of both keeps the distances, too. */
function spread(row, wanted) {
  const apart = (n) => (row[n - 1].width + row[n].width) / 2 + ASIDE;
  const left = [...wanted];
  const right = [...wanted];
  for (let n = 1; n < row.length; n++) left[n] = Math.max(left[n], left[n - 1] + apart(n));
  for (let n = row.length - 1; n > 0; n--) right[n - 1] = Math.min(right[n - 1], right[n] - apart(n));
  row.forEach((each, n) => (each.x = (left[n] + right[n]) / 2));
}

/** Everything that is drawn, moved to begin at the left edge. */
function framed(nodes, edges, start, height) {
  const ends = nodes.flatMap(({ x, width }) => [x - width / 2, x + width / 2]);
  for (const { reach } of edges) ends.push(...reach);
  const left = Math.min(...ends) - MARGIN;
  return {
    left,
    width: Math.max(...ends) - left + MARGIN,
    height: height + MARGIN,
    nodes,
    edges,
    entry: { x: start?.x ?? 0, y: TOP },
  };
}
