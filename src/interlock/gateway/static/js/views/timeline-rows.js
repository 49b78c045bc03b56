/**
 * From the tree of events to the rows of a timeline: what began and what ended it are one row.
 *
 * @typedef {object} Row
 * @property {string} id  the id of its first event
 * @property {string} category  what the filter calls it
 * @property {any[]} events  the events it stands for, the first one first
 * @property {number} start @property {number} end  microseconds
 * @property {[number, number]|null} core  the part of a turn in which the model worked
 * @property {boolean} isPoint @property {boolean} isOpen  nothing has ended it yet
 * @property {''|'ok'|'denied'|'failed'|'limit'|'waiting'|'expired'|'unknown'} state
 * @property {{input: number, output: number}|null} tokens @property {Cost|null} cost
 * @property {number|null} duration  milliseconds
 * @property {number} level @property {Row[]} children
 */

const CATEGORY = {
  'tool_call.denied': 'denied', 'control.limit_reached': 'limit', 'progress.stalled': 'limit', 'message.appended': 'message',
};
const BY_FAMILY = {
  task: 'task', agent: 'agent', turn: 'turn', tool_call: 'call', ask_user: 'question', retry: 'retry', circuit: 'retry',
  session: 'session', undo: 'undo', run: 'run', node: 'run', plan: 'run',
};
/** In the order of the chips. */
export const CATEGORIES = [
  'run', 'task', 'agent', 'turn', 'call', 'denied', 'question', 'limit', 'retry', 'message', 'session', 'undo', 'other',
];

const ENDS = {
  // A turn is recorded when the model has answered.
  'turn.completed': [],
  'run.started': ['run.finished', 'run.stopped'],
  'node.entered': ['node.completed', 'node.failed'],
  'task.queued': ['task.finished', 'task.cancelled', 'task.steered'],
  'task.started': ['task.finished', 'task.cancelled', 'task.waiting'],
  'agent.started': ['agent.completed', 'agent.failed'],
  'tool_call.started': ['tool_call.completed', 'tool_call.failed', 'tool_call.denied', 'tool_call.interrupted'],
};
/** What is said of a row while it lasts. */
const ALONG = {
  'tool_call.started': ['ask_user.asked', 'ask_user.answered', 'ask_user.expired', 'node.decided'],
  'node.entered': ['node.begun'],
};

export function categoryOf(kind) {
  return CATEGORY[kind] ?? BY_FAMILY[kind.split('.')[0]] ?? 'other';
}

/**
 * What is known of a cost, and whether that is all of it.
 * @typedef {{known: number, isWhole: boolean}} Cost
 * @param {{cost: number|null, cost_at_least: number}} node a node of `events.tree`, or a day of `stats.get`
 * @returns {Cost}
 */
export function costOf(node) {
  return { known: node.cost_at_least, isWhole: node.cost !== null };
}

/** @param {Cost[]} costs @returns {Cost} */
export function sumOfCosts(costs) {
  return { known: costs.reduce((sum, { known }) => sum + known, 0), isWhole: costs.every(({ isWhole }) => isWhole) };
}

/** @param {object[]} roots of `events.tree` @param {boolean} isRunning @param {number} now @returns {Row[]} */
export function timelineRows(roots, isRunning, now) {
  return roots.map((node) => row(node, 0, { isRunning, now }));
}

function row(node, level, state) {
  const { own, below } = parted(node);
  /** @type {any} */
  const made = {
    id: node.event_id,
    category: categoryOf(node.kind),
    events: [node, ...own],
    start: node.time_us,
    core: null,
    isPoint: !(node.kind in ENDS),
    tokens: node.tokens ?? null,
    cost: node.tokens ? costOf(node) : null,
    level,
  };
  const ended = node.kind === 'turn.completed' ? node : own.findLast((event) => ENDS[node.kind]?.includes(event.kind) && event.kind !== 'task.waiting');
  made.children = below.map((child) => row(child, level + 1, state));
  judge(made, node, own, ended);
  measure(made, node, ended, state);
  return made;
}

/** What belongs to the row itself, and what stands below it. */
function parted(node) {
  const own = [];
  const below = [];
  const takes = ({ kind }) => ENDS[node.kind]?.includes(kind) || ALONG[node.kind]?.includes(kind);
  for (const child of node.children ?? []) {
    if (takes(child)) {
      own.push(child);
      below.push(...(child.children ?? []));
    } else below.push(child);
  }
  if (node.kind !== 'task.queued') return { own, below };
  // A task that was taken up once is one row; every further time has a row of its own.
  const starts = below.filter(({ kind }) => kind === 'task.started');
  if (starts.length !== 1) {
    for (const start of starts) own.push(...start.children.filter(({ kind }) => ENDS['task.queued'].includes(kind)));
    return { own, below };
  }
  const inner = parted(starts[0]);
  return {
    own: [starts[0], ...inner.own, ...own],
    below: [...below.filter((child) => child !== starts[0]), ...inner.below],
  };
}

function judge(made, node, own, ended) {
  const asked = own.find(({ kind }) => kind === 'ask_user.asked');
  if (asked) made.category = 'question';
  const last = ended?.kind ?? (made.isPoint ? node.kind : '');
  if (last === 'tool_call.denied') made.category = 'denied';
  made.isOpen = !made.isPoint && !ended;
  if (own.some(({ kind }) => kind === 'ask_user.expired')) made.state = 'expired';
  else if (last === 'tool_call.denied') made.state = 'denied';
  else if (last === 'tool_call.interrupted') made.state = 'unknown';
  else if (/\.(failed|exhausted|cancelled)$/.test(last) || ended?.payload?.status === 'failed') made.state = 'failed';
  else if (made.category === 'limit') made.state = 'limit';
  else if (made.isOpen && asked && !own.some(({ kind }) => kind === 'ask_user.answered')) made.state = 'waiting';
  else made.state = ended ? 'ok' : '';
}

function measure(made, node, ended, { isRunning, now }) {
  const latest = Math.max(node.time_us, ...made.events.map(({ time_us: us }) => us), ...made.children.map(({ reach }) => reach));
  if (made.isOpen && parked(made)) {
    made.isOpen = false;
    made.state = made.category === 'task' && made.level === 0 ? 'waiting' : '';
  }
  made.end = made.isOpen && isRunning ? Math.max(now, latest) : latest;
  // While a question is open nothing runs: its parents do not span the wait.
  const asked = made.events.find(({ kind }) => kind === 'ask_user.asked');
  made.reach = asked ? asked.time_us : made.category === 'message' ? -Infinity : made.end;
  made.isOpen &&= isRunning;
  // Events that were written together share a time; what was measured is nearer to the truth.
  const measured = ended?.payload?.latency_ms;
  if (typeof measured === 'number') made.start = Math.min(made.start, ended.time_us - measured * 1000);
  if (node.kind === 'turn.completed') made.core = [made.start, node.time_us];
  if (made.children.length) made.start = Math.min(made.start, ...made.children.map(({ start }) => start));
  if (made.category === 'question' && made.isOpen) made.end = Math.max(now, made.end);
  made.duration = made.isPoint ? null : duration(made, node);
}

/** A task, agent or turn that was left because a question waits for its answer. */
function parked(made) {
  return made.children.some((child) => (child.category === 'question' && child.state === 'waiting') || parked(child));
}

function duration(made, node) {
  if (made.isOpen) return (made.end - made.start) / 1000;
  if (node.kind === 'turn.completed') return (made.end - made.start) / 1000;
  return node.duration_ms ?? (made.end - made.start) / 1000;
}

/** All rows in the order of reading. @param {Row[]} rows @returns {Row[]} */
export function flat(rows) {
  return rows.flatMap((each) => [each, ...flat(each.children)]);
}

/** How many rows of each category there are. */
export function counted(rows) {
  const counts = new Map();
  for (const { category } of flat(rows)) counts.set(category, (counts.get(category) ?? 0) + 1);
  return counts;
}

/**
 * The rows to show: those that match, and those above them.
 * @returns {{row: Row, isMatch: boolean, hasChildren: boolean}[]}
 */
export function visible(rows, { matches, isFolded }) {
  const shown = [];
  for (const each of rows) {
    const below = visible(each.children, { matches, isFolded });
    const isMatch = matches(each);
    if (!isMatch && !below.length) continue;
    shown.push({ row: each, isMatch, hasChildren: below.length > 0 });
    if (!isFolded(each)) shown.push(...below);
  }
  return shown;
}
