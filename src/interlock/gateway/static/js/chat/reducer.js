/**
 * A session's frames to what is shown. Pure: no DOM, no clock, no network; the same frames give the same state, and a
 * frame that comes twice changes nothing the second time.
 *
 * @typedef {{type: 'text', key: string, turn: number, text: string, open: boolean}} TextBlock
 * @typedef {{type: 'reasoning', key: string, turn: number, text: string, durationMs: number|null,
 *   open: boolean}} ReasoningBlock
 * @typedef {{type: 'call', key: string, callId: string, tool: string, arguments: any, status: CallStatus,
 *   startedUs: number|null, latencyMs: number|null, result: any, denial: any, question: any,
 *   sandbox: string, calledAs?: string}} CallBlock
 * @typedef {'asked'|'running'|'ok'|'failed'|'denied'|'interrupted'} CallStatus
 * @typedef {{type: 'note', key: string, kind: string, payload: object}} NoteBlock
 * @typedef {{type: 'said', key: string, taskId: string, message: Said|null, who: string}} SaidBlock a message that
 *   steered the task
 * @typedef {{seq: number, content: string, timeUs: number}} Said
 * @typedef {{type: 'task', id: string, message: Said|null,
 *   status: TaskStatus, code: string, reason: string, mode: string, who: string, steers: string, queuedUs: number|null,
 *   startedUs: number|null, lastUs: number|null, waitsSinceUs: number|null, waitedUs: number,
 *   undos: string[], undoing: {id: string, of: string}|null, canUndo: boolean, turns: Record<string, number>,
 *   blocks: (TextBlock|ReasoningBlock|CallBlock|NoteBlock|SaidBlock)[]}} TaskEntry
 * @typedef {'queued'|'running'|'waiting'|'done'|'failed'|'cancelled'} TaskStatus
 * @typedef {{type: 'note', key: string, kind: string, payload: object, timeUs: number}} NoteEntry
 * @typedef {{sessionId: string, fromSeq: number, lastSeq: number, entries: (TaskEntry|NoteEntry)[],
 *   seenSeq: number, parts: import('../api.js').Frame[]}} State
 */
import { handlers } from './frame-handlers.js';

/** `fromSeq` is the number after which the frames begin. @param {string} sessionId @returns {State} */
export function emptyState(sessionId, fromSeq = 0) {
  return { sessionId, fromSeq, lastSeq: fromSeq, seenSeq: fromSeq, entries: [], parts: [] };
}

/**
 * Numbers count one by one. One that is known changes nothing, with the parts of its event that came before it; one
 * that comes too early is not taken, and `hasGap` says so until it came again in its place. Text belongs to its turn,
 * so it can be shown before its event is stored, and is replaced by that.
 * @param {State} state @param {import('../api.js').Frame} frame @returns {State}
 */
export function reduce(state, frame) {
  if (frame.session_id !== state.sessionId) return state;
  const { seq } = frame;
  if (typeof seq !== 'number') return unnumbered(state, frame);
  const parts = state.parts;
  const base = parts.length ? { ...state, parts: [] } : state;
  if (seq <= state.lastSeq) return base;
  const seenSeq = Math.max(seq, state.seenSeq);
  if (seq > state.lastSeq + 1) return { ...base, seenSeq };
  const next = [...parts, frame].reduce(applied, base);
  return { ...next, lastSeq: seq, seenSeq };
}

const LIVE = new Set(['stream_chunk', 'reasoning_chunk']);

/** Text is shown at once. Other parts of an event wait for its number, which comes right behind them. */
function unnumbered(state, frame) {
  return LIVE.has(frame.type) ? applied(state, frame) : { ...state, parts: [...state.parts, frame] };
}

function applied(state, { type, data, seq, task_id: taskId }) {
  return handlers[type]?.(state, data ?? {}, seq, taskId) ?? state;
}

/**
 * The connection is gone: an event of which only a part came will come again.
 * @param {State} state @returns {State}
 */
export function withoutParts(state) {
  return state.parts.length ? { ...state, parts: [] } : state;
}

/** @param {State} state @param {import('../api.js').Frame[]} frames @returns {State} */
export function reduceAll(state, frames) {
  return frames.reduce(reduce, state);
}

/**
 * What stood before, put in front. A task that was cut in two becomes one again.
 * @param {State} state @param {import('../api.js').Frame[]} frames @param {number} fromSeq @returns {State}
 */
export function prepend(state, frames, fromSeq) {
  const earlier = reduceAll(emptyState(state.sessionId, fromSeq), frames);
  return { ...state, fromSeq, entries: joined(earlier.entries, state.entries) };
}

function joined(earlier, after) {
  const given = givenMessages(after);
  const before = earlier.filter((entry) => entry.type !== 'task' || !given.has(entry.id));
  const later = new Map(after.filter((entry) => entry.type === 'task').map((entry) => [entry.id, entry]));
  const first = before.map((entry) => {
    const rest = entry.type === 'task' && later.get(entry.id);
    return rest ? joinedTask(entry, rest) : entry;
  });
  const taken = new Set(before.filter((entry) => entry.type === 'task').map((entry) => entry.id));
  return [...first, ...after.filter((entry) => entry.type !== 'task' || !taken.has(entry.id))];
}

/** The tasks whose messages steered others. */
const givenMessages = (entries) =>
  new Set(entries.flatMap((entry) => (entry.blocks ?? []).filter((block) => block.type === 'said').map(({ taskId }) => taskId)));

function joinedTask(first, rest) {
  const blocks = [...first.blocks];
  for (const block of rest.blocks) {
    const at = block.type === 'call' ? blocks.findIndex((b) => b.type === 'call' && b.callId === block.callId) : -1;
    if (at < 0) blocks.push(block);
    else blocks[at] = joinedCall(blocks[at], block);
  }
  return {
    ...rest,
    message: first.message ?? rest.message,
    who: first.who || rest.who,
    steers: first.steers || rest.steers,
    queuedUs: first.queuedUs ?? rest.queuedUs,
    startedUs: first.startedUs ?? rest.startedUs,
    lastUs: rest.lastUs ?? first.lastUs,
    waitedUs: first.waitedUs + rest.waitedUs + waitedBetween(first, rest),
    undos: [...first.undos, ...rest.undos],
    mode: rest.mode || first.mode,
    turns: { ...first.turns, ...rest.turns },
    blocks,
  };
}

/** Where the cut is within the time in which it waited. */
function waitedBetween(first, rest) {
  const until = rest.startedUs ?? rest.lastUs;
  return first.waitsSinceUs === null || until === null ? 0 : until - first.waitsSinceUs;
}

function joinedCall(first, rest) {
  if (first.status === 'denied') return first;
  return {
    ...first,
    status: rest.status === 'asked' ? first.status : rest.status,
    startedUs: rest.startedUs ?? first.startedUs,
    latencyMs: rest.latencyMs ?? first.latencyMs,
    result: rest.result ?? first.result,
    denial: rest.denial ?? first.denial,
    sandbox: rest.sandbox || first.sandbox,
    question: rest.question ? { ...first.question, ...known(rest.question) } : first.question,
  };
}

const known = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));

// -- what the views ask of a state -------------------------------------------------------------------

const ENDS = new Set(['done', 'failed', 'cancelled']);
const CHANGING = new Set(['write_file', 'edit_file', 'move_file', 'delete_file', 'generate_image']);

/** Whether a number came and others before it did not. @param {State} state */
export const hasGap = (state) => state.seenSeq > state.lastSeq;

/** @param {TaskEntry} task */
export const hasEnded = (task) => ENDS.has(task.status);

/** @param {{entries: State['entries']}} state @returns {TaskEntry[]} */
export const tasksOf = (state) => state.entries.filter((entry) => entry.type === 'task');

/** Of which messages the server has told. @param {State} state @returns {Set<string>} */
export const knownMessages = (state) => new Set([...tasksOf(state).map(({ id }) => id), ...givenMessages(state.entries)]);

/** The task that is worked on, or waits for an answer. @param {State} state @returns {TaskEntry|null} */
export function activeTask(state) {
  return tasksOf(state).find((task) => !hasEnded(task)) ?? null;
}

/** The task that has begun and not ended. Its mode only ever gets stricter. @param {State} state @returns {TaskEntry|null} */
export function startedTask(state) {
  return tasksOf(state).find((task) => task.mode && !hasEnded(task)) ?? null;
}

/** How many tasks come before this one. @param {State} state @param {string} taskId */
export function countTasksBefore(state, taskId) {
  let count = 0;
  for (const task of tasksOf(state)) {
    if (task.id === taskId) break;
    if (!hasEnded(task)) count++;
  }
  return count;
}

/** Whether the task changed files, as far as its calls tell. @param {TaskEntry} task */
export function hasChangedFiles(task) {
  return task.blocks.some((block) => block.type === 'call' && block.status === 'ok' && CHANGING.has(block.tool));
}

/** The tokens of its turns. @param {TaskEntry} task */
export const tokensOf = ({ turns }) => Object.values(turns).reduce((sum, tokens) => sum + tokens, 0);

/** How long it was worked on; null where the log does not tell. @param {TaskEntry} task */
export function workedMs({ startedUs, lastUs, waitedUs }) {
  return startedUs && lastUs ? (lastUs - startedUs - waitedUs) / 1000 : null;
}

/** The messages of one person, without repetitions. @param {State} state @param {string} who */
export function messagesBy(state, who) {
  const said = tasksOf(state).filter((task) => task.message && (!task.who || task.who === who));
  return said.map((task) => task.message.content).filter((text, at, all) => text !== all[at - 1]);
}

/** The last text of a task: its answer. @param {TaskEntry} task */
export function answerOf(task) {
  for (let at = task.blocks.length - 1; at >= 0; at--) {
    const block = task.blocks[at];
    if (block.type === 'text') return block.text;
  }
  return '';
}
