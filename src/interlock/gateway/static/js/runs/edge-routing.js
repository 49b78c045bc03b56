/** How edges run: downwards in curves, and back along lanes beside the nodes, with room for their words. */

const PORT = 16;
const LANE = 26;
const ROUND = 9;
const HEAD = 6;
const LINE = 15;
const ROOM = 90;

/** Ways that leave or reach the same node do so side by side. */
function port(list, each, width) {
  const step = Math.min(PORT * 2, (width - 40) / Math.max(list.length, 1));
  return (list.indexOf(each) - (list.length - 1) / 2) * step;
}

const byX = (list) => list.toSorted((a, b) => a.x - b.x);

/** @param {{edge: any, words: string, wide: number}} each @param {import('./graph-layout.js').Item[]} chain */
export function routeForwardEdge({ edge, words, wide }, chain, { top, middle, layer }) {
  const source = chain[0];
  const target = chain.at(-1);
  const outs = byX(source.down);
  const x0 = source.x + port(outs, chain[1], source.width);
  const y0 = middle(source) + source.height / 2;
  const x1 = target.x + port(byX(target.up), chain.at(-2), target.width);
  const y1 = middle(target) - target.height / 2;
  let path = `M${x0} ${y0}`;
  let [x, y] = [x0, y0];
  const to = (nextX, nextY) => {
    const half = (nextY - y) / 2;
    path += `C${x} ${y + half} ${nextX} ${nextY - half} ${nextX} ${nextY}`;
    [x, y] = [nextX, nextY];
  };
  for (const stop of chain.slice(1, -1)) {
    to(stop.x, top(stop.layer));
    path += `V${(y = top(stop.layer) + layer)}`;
  }
  to(x1, y1 - HEAD);
  // Words of neighbours stand below one another, so that they do not run into each other.
  const isNarrow = outs.some((out, n) => n && (out.x - outs[n - 1].x) / 2 < ROOM);
  const lower = isNarrow ? (outs.indexOf(chain[1]) - (outs.length - 1) / 2) * LINE : 0;
  const next = chain.length > 2 ? chain[1].x : x1;
  const at = { x: (x0 + next) / 2, y: (y0 + top(source.layer + 1)) / 2 + lower, anchor: 'middle' };
  const head = `M${x1} ${y1}l-${HEAD * 0.7} -${HEAD + 3}h${HEAD * 1.4}z`;
  const reach = words ? [at.x - wide / 2, at.x + wide / 2] : [];
  return { edge, words, path, head, isBack: false, at, reach: [...reach, ...chain.map((stop) => stop.x)] };
}

/** Short ones next to the nodes, longer ones around them; each on the side on which fewer nodes are in its way. */
export function routeBackEdges(edges, rows, middle) {
  const sides = { right: [], left: [] };
  for (const each of edges.toSorted((a, b) => span(a) - span(b))) sides[sideOf(each, rows)].push(each);
  const ends = rows.flat().flatMap(({ x, width }) => [x - width / 2, x + width / 2]);
  return [
    ...lanes(sides.right, Math.max(...ends), 1, middle),
    ...lanes(sides.left, Math.min(...ends), -1, middle),
  ];
}

const span = ({ from, to }) => from.layer - to.layer;

function sideOf({ from, to }, rows) {
  const beyond = (item, isRight) =>
    rows[item.layer].filter((other) => (isRight ? other.x > item.x : other.x < item.x)).length;
  const right = beyond(from, true) + beyond(to, true);
  return beyond(from, false) + beyond(to, false) < right ? 'left' : 'right';
}

function lanes(edges, edge, sign, middle) {
  const taken = [];
  for (const each of edges) {
    const meets = (other) => other.to.layer <= each.from.layer && each.to.layer <= other.from.layer;
    let n = taken.findIndex((lane) => !lane.some(meets));
    if (n < 0) n = taken.push([]) - 1;
    taken[n].push(each);
  }
  let x = edge;
  return taken.flatMap((lane) => {
    x += sign * LANE;
    const at = x;
    x += sign * Math.max(0, ...lane.map(({ wide }) => wide + 4));
    return lane.map((each) => backWay(each, at, sign, middle, edges));
  });
}

function backWay({ edge, words, wide, from, to }, x, sign, middle, all) {
  // Out in the lower half and in at the upper one: a node can have both.
  const outs = all.filter((each) => each.from === from);
  const ins = all.filter((each) => each.to === to);
  const y0 = middle(from) + 8 + 7 * outs.findIndex((each) => each.edge === edge);
  const y1 = middle(to) - 8 - 7 * ins.findIndex((each) => each.edge === edge);
  const x0 = from.x + sign * (from.width / 2 - (from.node.kind === 'decision' ? 7 : 0));
  const x1 = to.x + sign * (to.width / 2 - (to.node.kind === 'decision' ? 7 : 0));
  const turn = x - sign * ROUND;
  const path = `M${x0} ${y0}H${turn}Q${x} ${y0} ${x} ${y0 - ROUND}V${y1 + ROUND}Q${x} ${y1} ${turn} ${y1}H${x1 + sign * HEAD}`;
  const head = `M${x1} ${y1}l${sign * (HEAD + 3)} -${HEAD * 0.7}v${HEAD * 1.4}z`;
  const at = { x: x + sign * 6, y: (y0 + y1) / 2, anchor: sign > 0 ? 'start' : 'end' };
  return { edge, words, path, head, isBack: true, at, reach: [x, x + sign * (wide + 8)] };
}
