/** What each type of frame does to the state. Used by reducer.js; every function gives a new state. */

const ENDS = new Set(['done', 'failed', 'cancelled']);

export const handlers = {
  stream_chunk: chunk,
  reasoning_chunk: reasoned,
  tool_call: (state, data) =>
    withTask(state, data.task_id, (task) => withCall(withoutOtherText(task, data.turn), data.call_id, (call) => asked(call, data))),
  tool_result: (state, data) => withTask(state, data.task_id, (task) => withCall(task, data.call_id, (call) => result(call, data))),
  tool_denied: denied,
  ask_user: question,
  error: ended,
  event,
};

// -- tasks and their blocks --------------------------------------------------------------------------

function newTask(id) {
  return {
    type: 'task',
    id,
    message: null,
    status: 'queued',
    code: '',
    reason: '',
    mode: '',
    who: '',
    steers: '',
    queuedUs: null,
    startedUs: null,
    lastUs: null,
    waitsSinceUs: null,
    waitedUs: 0,
    undos: [],
    undoing: null,
    canUndo: true,
    turns: {},
    blocks: [],
  };
}

function withTask(state, id, change) {
  if (!id) return state;
  const at = findTask(state, id);
  if (at < 0) {
    return { ...state, entries: placed(state, change(newTask(id))) };
  }
  const before = state.entries[at];
  const after = change(before);
  return after === before ? state : { ...state, entries: state.entries.with(at, after) };
}

/** Tasks are done in the order of their messages: one whose message stands above what was read comes first. */
function placed({ entries, fromSeq }, task) {
  const isCut = fromSeq > 0 && !task.message;
  const at = isCut ? entries.findIndex((entry) => entry.type === 'task' && entry.message) : -1;
  return at < 0 ? [...entries, task] : entries.toSpliced(at, 0, task);
}

/** Most often it is the last one. */
function findTask(state, id) {
  for (let at = state.entries.length - 1; at >= 0; at--) {
    const entry = state.entries[at];
    if (entry.type === 'task' && entry.id === id) return at;
  }
  return -1;
}

function newCall(callId) {
  return {
    type: 'call',
    key: `c${callId}`,
    callId,
    tool: '',
    arguments: null,
    status: 'asked',
    startedUs: null,
    latencyMs: null,
    calledAs: '',
    result: null,
    denial: null,
    question: null,
    sandbox: '',
  };
}

/** A task in which a text is followed by a call has no open text any more. */
function withCall(task, callId, change) {
  const at = task.blocks.findIndex((block) => block.type === 'call' && block.callId === callId);
  if (at >= 0) return { ...task, blocks: task.blocks.with(at, change(task.blocks[at])) };
  return { ...task, blocks: [...closedTexts(task.blocks), change(newCall(callId))] };
}

// -- text: what is not stored yet is the last block, and open -----------------------------------------

function openText({ blocks }) {
  const last = blocks[blocks.length - 1];
  return last?.type === 'text' && last.open ? last : null;
}

function closedTexts(blocks) {
  const last = openText({ blocks });
  return last ? blocks.with(-1, { ...last, open: false }) : blocks;
}

/** Where a task ended: reasoning whose turn did not is not stored. */
const endedBlocks = (task) => closedTexts(withoutOpen(task, (block) => block.type === 'reasoning').blocks);

/** A text of another turn came too early, or was given up: it comes again if it is wanted. */
const withoutOtherText = (task, turn) => withoutOpen(task, (block) => block.turn !== turn);

function withoutOpen(task, isWrong) {
  const blocks = task.blocks.filter((block) => !(block.open && isWrong(block)));
  return blocks.length < task.blocks.length ? { ...task, blocks } : task;
}

function chunk(state, data, seq) {
  return withTask(state, data.task_id, (task) => {
    if (data.done) return { ...endedAt(task, data.time_us), status: 'done', blocks: endedBlocks(task) };
    let next = withText(task, data);
    if (typeof seq === 'number') next = { ...next, blocks: closedTexts(next.blocks) };
    return next.status === 'queued' ? { ...next, status: 'running' } : next;
  });
}

function withText(task, { turn, offset, content }) {
  if (task.blocks.some((block) => block.type === 'text' && block.turn === turn && !block.open)) return task;
  const known = openText(task);
  if (known?.turn === turn) {
    const text = spliced(known.text, offset, content);
    return text === null ? task : { ...task, blocks: task.blocks.with(-1, { ...known, text }) };
  }
  if (offset > 0 || !content) return task;
  const block = { type: 'text', key: `t${turn}`, turn, text: content, open: true };
  return { ...task, blocks: [...withoutOtherText(task, turn).blocks, block] };
}

// -- reasoning: before the text of its turn, and open until it is stored --------------------------------

function reasoned(state, { task_id: id, turn, offset, content, duration_ms: durationMs }) {
  return withTask(state, id, (task) => {
    const known = task.blocks.find((block) => block.type === 'reasoning' && block.turn === turn);
    if (known ? !known.open : offset > 0 || !content) return task;
    const text = spliced(known?.text ?? '', offset, content);
    if (text === null) return task;
    const next = withReasoning(withoutOtherText(task, turn), { turn, text, durationMs, open: true });
    return next.status === 'queued' ? { ...next, status: 'running' } : next;
  });
}

/** In its place: behind what came before, and before the text of the turn that is not stored yet. */
function withReasoning(task, { turn, ...values }) {
  const block = { type: 'reasoning', key: `r${turn}`, turn, ...values };
  const at = task.blocks.findIndex((each) => each.type === 'reasoning' && each.turn === turn);
  if (at >= 0) return { ...task, blocks: task.blocks.with(at, block) };
  return { ...task, blocks: task.blocks.toSpliced(task.blocks.length - (openText(task) ? 1 : 0), 0, block) };
}

/** What is stored takes the place of what was shown. */
function turnCompleted(task, { payload }) {
  const { turn, reasoning, reasoning_ms: durationMs = null } = payload;
  const turns = { ...task.turns, [turn]: (payload.input_tokens ?? 0) + (payload.output_tokens ?? 0) };
  const next = { ...withoutOpen(task, (block) => block.type === 'reasoning' && block.turn !== turn), turns };
  const text = reasoning?.text;
  if (text) return withReasoning(next, { turn, text, durationMs, open: false });
  return withoutOpen(next, (block) => block.type === 'reasoning');
}

/**
 * The server counts characters; a string here counts those beyond the first plane twice. null: what comes before the
 * content is missing.
 */
function spliced(text, offset, content) {
  if (offset === 0) return content;
  let units = offset;
  if (/[\ud800-\udbff]/.test(text)) {
    units = 0;
    for (let n = 0; n < offset; n++) units += text.codePointAt(units) > 0xffff ? 2 : 1;
  }
  return units > text.length ? null : text.slice(0, units) + content;
}

// -- calls -------------------------------------------------------------------------------------------

function asked(call, data) {
  return { ...call, tool: data.tool_name, calledAs: data.called_as ?? '', arguments: data.arguments };
}

/** A denied call stays denied, whatever later frames say. */
function result(call, data) {
  const tool = call.tool || data.tool_name;
  if (call.status === 'denied') return { ...call, tool };
  const status = data.result?.ok === true ? 'ok' : call.status === 'interrupted' ? 'interrupted' : 'failed';
  return { ...call, tool, status, result: data.result ?? {} };
}

/** Its data has six fields, and none names the task. */
function denied(state, data, _seq, taskId) {
  return withTask(state, taskId, (task) => withDenial(task, data));
}

function withDenial(task, data) {
  return withCall(task, data.call_id, (call) => ({
    ...call,
    tool: call.tool || data.tool_name,
    status: 'denied',
    denial: data,
    result: null,
  }));
}

function question(state, data) {
  return withTask(state, data.task_id, (task) => {
    const next = withCall(task, data.call_id, (call) => ({
      ...call,
      tool: call.tool || 'ask_user',
      question: { answer: null, who: '', reason: '', status: 'open', ...call.question, id: data.question_id, document: data.question },
    }));
    return { ...next, status: ENDS.has(next.status) ? next.status : 'waiting' };
  });
}

function closedQuestion(state, data, values) {
  const callId = data.payload.call_id;
  return withTask(state, data.task_id, (task) => {
    const next = withCall(task, callId, (call) => ({
      ...call,
      question: { document: null, answer: null, reason: '', ...call.question, id: data.payload.question_id, ...values },
    }));
    return { ...next, status: next.status === 'waiting' ? 'queued' : next.status };
  });
}

/** A plan becomes another task; that it did is kept with the question it was approved by. */
function planBuilt(state, { payload }) {
  const isIt = (block) => block.type === 'call' && block.question?.id === payload.question_id;
  const task = state.entries.find((entry) => entry.type === 'task' && entry.blocks.some(isIt));
  if (!task) return state;
  const { callId } = task.blocks.find(isIt);
  const built = (call) => ({ ...call, question: { ...call.question, isBuilt: true } });
  return withTask(state, task.id, (each) => withCall(each, callId, built));
}

// -- the end of a task, and everything else ----------------------------------------------------------

const endedAt = (task, timeUs) => ({ ...waitedUntil(task, timeUs), lastUs: timeUs ?? task.lastUs });

/** What a person took to answer is not the task's time. */
function waitedUntil(task, timeUs) {
  if (task.waitsSinceUs === null) return task;
  return { ...task, waitsSinceUs: null, waitedUs: task.waitedUs + Math.max(0, timeUs - task.waitsSinceUs) };
}

function ended(state, data) {
  if (!data.task_id) return state;
  return withTask(state, data.task_id, (task) => ({
    ...endedAt(task, data.time_us),
    status: data.code === 'CANCELLED' ? 'cancelled' : 'failed',
    code: data.code,
    reason: data.message ?? '',
    blocks: endedBlocks(task),
  }));
}

function event(state, data, seq) {
  const handler = EVENTS[data.kind];
  const next = handler ? handler(state, { ...data, payload: data.payload ?? {} }, seq) : state;
  const at = data.task_id ? findTask(next, data.task_id) : -1;
  if (at < 0) return next;
  return { ...next, entries: next.entries.with(at, { ...next.entries[at], lastUs: data.time_us }) };
}

const onTask = (change) => (state, data) => withTask(state, data.task_id ?? data.payload.task_id, (task) => change(task, data));

const onCall = (change) => (state, data) =>
  withTask(state, data.task_id, (task) =>
    withCall(task, data.payload.call_id, (call) => change(call, data)),
  );

const taskNote = onTask((task, { kind, payload, event_id: id }) => ({
  ...task,
  blocks: withNote(task, { type: 'note', key: `n${id}`, kind, payload }),
}));

/** Before what is not stored yet. */
function withNote(task, note) {
  const at = task.blocks.findIndex((block) => block.open);
  return task.blocks.toSpliced(at < 0 ? task.blocks.length : at, 0, note);
}

/** What was shown of an answer is void: the next one takes its place. */
const discarded = (state, data) => taskNote(onTask(withoutTurn)(state, data), data);

const withoutTurn = (task, { payload }) => withoutOpen(task, (block) => block.turn === payload.turn);

function sessionNote(state, { kind, payload, event_id: id, time_us: timeUs }) {
  return { ...state, entries: [...state.entries, { type: 'note', key: `n${id}`, kind, payload, timeUs }] };
}

// As in config/modes.py: the smaller, the stricter.
const STRICTNESS = { chat_safe: 0, chat: 1, plan: 1, coding: 2 };

/** A task that has begun gets a stricter mode at once, and never a looser one. */
function modeChanged(state, data) {
  const { to_mode: mode } = data.payload;
  const isTightened = (entry) => entry.type === 'task' && !ENDS.has(entry.status) && STRICTNESS[mode] < STRICTNESS[entry.mode];
  const entries = state.entries.map((entry) => (isTightened(entry) ? { ...entry, mode } : entry));
  return sessionNote({ ...state, entries }, data);
}

function message(state, data, seq) {
  const said = data.message;
  if (said?.role !== 'user') return state;
  // A message that no task has taken up yet gets its task's name with task.queued.
  const id = data.task_id ?? `m${seq}`;
  const shown = { seq, content: said.content, timeUs: data.time_us };
  return withTask(state, id, (task) => ({ ...task, message: shown }));
}

function queued(state, { payload, time_us: timeUs }) {
  const id = payload.task_id;
  const loose = `m${payload.message_seq}`;
  const entries = state.entries.map((entry) => (entry.type === 'task' && entry.id === loose ? { ...entry, id } : entry));
  return withTask({ ...state, entries }, id, (task) => ({ ...task, who: payload.who ?? '', steers: payload.steers ?? '', queuedUs: timeUs }));
}

/** The task at work got the message of another, which ends with that. */
function steered(state, { payload, message: said, event_id: id, time_us: timeUs }) {
  const taken = state.entries.find((entry) => entry.type === 'task' && entry.id === payload.task_id);
  const entries = state.entries.filter((entry) => entry !== taken);
  const words = taken?.message ?? (said ? { seq: payload.message_seq, content: said.content, timeUs } : null);
  const block = { type: 'said', key: `s${id}`, taskId: payload.task_id, message: words, who: taken?.who ?? '' };
  return withTask({ ...state, entries }, payload.into, (task) => ({ ...task, blocks: withNote(task, block) }));
}

/** Of a task, or of an undo of it. */
function undoBegun(state, { payload: { undo_id: id, of } }) {
  const task = state.entries.find((entry) => entry.type === 'task' && (entry.id === of || entry.undos.includes(of)));
  return task ? withTask(state, task.id, (each) => ({ ...each, undoing: { id, of } })) : state;
}

function undone(state, data) {
  const { payload } = data;
  const task = state.entries.find((entry) => entry.type === 'task' && entry.undoing?.id === payload.undo_id);
  if (!task) return sessionNote(state, data);
  const isRedo = task.undoing.of !== task.id;
  const changed = withTask(state, task.id, (each) => ({ ...each, undoing: null, ...(isRedo ? afterRedo : afterUndo)(each, payload) }));
  return sessionNote(changed, { ...data, kind: isRedo ? 'redo.finished' : data.kind });
}

/** Only what was restored is undone, and can be redone; the rest can be tried again. */
function afterUndo({ undos }, { undo_id: id, restored = [], left = [] }) {
  return { undos: restored.length ? [...undos, id] : undos, canUndo: left.length > 0 };
}

function afterRedo({ undos, undoing, canUndo }, { restored = [], left = [] }) {
  return { undos: left.length ? undos : undos.filter((id) => id !== undoing.of), canUndo: canUndo || restored.length > 0 };
}

const EVENTS = {
  'message.appended': message,
  'task.queued': queued,
  'task.started': onTask((task, { payload, time_us: timeUs }) => ({
    ...waitedUntil(task, timeUs),
    status: 'running',
    mode: payload.mode ?? task.mode,
    startedUs: task.startedUs ?? timeUs,
  })),
  'task.waiting': onTask((task, { time_us: timeUs }) => ({ ...task, status: 'waiting', waitsSinceUs: timeUs })),
  'task.finished': onTask((task, { payload }) => ({
    ...task,
    status: payload.status ?? 'done',
    reason: payload.reason ?? '',
    blocks: endedBlocks(task),
  })),
  'task.steered': steered,
  'task.cancelled': onTask((task) => ({ ...task, status: 'cancelled', blocks: endedBlocks(task) })),
  'turn.completed': onTask(turnCompleted),
  'tool_call.started': onCall((call, { payload, time_us: timeUs }) => ({
    ...call,
    tool: payload.tool_name ?? call.tool,
    arguments: call.arguments ?? payload.arguments,
    sandbox: payload.sandbox ?? '',
    startedUs: timeUs,
    status: call.status === 'asked' ? 'running' : call.status,
  })),
  'tool_call.completed': onCall((call, { payload }) => ({ ...call, latencyMs: payload.latency_ms ?? null })),
  'tool_call.failed': onCall((call, { payload }) => ({
    ...call,
    tool: call.tool || payload.tool_name,
    arguments: call.arguments ?? payload.arguments ?? null,
    latencyMs: payload.latency_ms ?? null,
    status: call.status === 'denied' ? 'denied' : 'failed',
    result: call.result ?? {
      ok: false,
      error_code: payload.error_code,
      error_class: payload.error_class,
      message: payload.error,
      next_action: payload.next_action,
    },
  })),
  'tool_call.interrupted': onCall((call) => (call.status === 'denied' ? call : { ...call, status: 'interrupted' })),
  'ask_user.answered': (state, data) =>
    closedQuestion(state, data, { status: 'answered', answer: data.payload.answer, who: data.payload.who ?? '' }),
  'ask_user.expired': (state, data) =>
    closedQuestion(state, data, { status: 'expired', reason: data.payload.reason ?? '', who: data.payload.who ?? '' }),
  'plan.build_started': planBuilt,
  'turn.discarded': discarded,
  'model.fallback': taskNote,
  'retry.scheduled': taskNote,
  'retry.exhausted': taskNote,
  'control.limit_reached': taskNote,
  'progress.stalled': taskNote,
  'context.compacted': taskNote,
  'session.mode_changed': modeChanged,
  'session.model_changed': sessionNote,
  'undo.started': undoBegun,
  'undo.finished': undone,
};
