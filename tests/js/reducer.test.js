/** A session told again, cut off and overtaken: nothing is doubled, nothing is lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyState, hasGap, knownMessages, prepend, reduce, reduceAll, withoutParts } from '../../src/interlock/gateway/static/js/chat/reducer.js';

const WORDS = ['One, ', '汉字 ', '🎈🎉 ', 'and e\u0301.'];
const ALL = WORDS.join('');

const frameOf = (type, data, seq = null) => ({ type, id: null, session_id: 's', seq, task_id: data.task_id ?? null, data });
const chunk = (turn, offset, content, seq = null) =>
  frameOf('stream_chunk', { task_id: 't', turn, offset, content, done: false }, seq);
const call = (turn, id, seq = null) =>
  frameOf('tool_call', { task_id: 't', turn, call_id: id, tool_name: 'current_time', arguments: {} }, seq);
const answer = (id, seq) =>
  frameOf('tool_result', { task_id: 't', call_id: id, tool_name: 'current_time', result: { ok: true } }, seq);
const event = (kind, task, payload, more = {}) => frameOf('event', { kind, task_id: task, time_us: 1, payload, ...more });
const numbered = (frames, before = 0) => frames.map((frame, at) => ({ ...frame, seq: before + at + 1 }));

/** Four answers as they come live, and as they are told later: text and calls, calls alone, text alone. */
function stories() {
  const [first, second, ...rest] = WORDS;
  const after = ALL.slice(first.length);
  const at = (n) => [...WORDS.slice(0, n).join('')].length;
  const started = frameOf('event', { kind: 'task.started', task_id: 't', time_us: 1, payload: { mode: 'chat' } }, 1);
  const renamed = frameOf('event', { kind: 'session.renamed', task_id: null, time_us: 2, payload: {} }, 4);
  const live = [
    [started],
    [chunk(1, 0, first), chunk(1, at(1), second), chunk(1, at(2), rest.join('')), call(1, 'a'), call(1, 'b', 2)],
    [answer('a', 3)],
    [chunk(2, 0, first), renamed],
    [chunk(2, at(1), after), call(2, 'c', 5)],
    [call(3, 'd'), call(3, 'e', 6)],
    [chunk(4, 0, first), chunk(4, at(1), after, 7)],
  ];
  const stored = [
    [started],
    [chunk(1, 0, ALL), call(1, 'a'), call(1, 'b', 2)],
    [answer('a', 3)],
    [renamed],
    [chunk(2, 0, ALL), call(2, 'c', 5)],
    [call(3, 'd'), call(3, 'e', 6)],
    [chunk(4, 0, ALL, 7)],
  ];
  return { live, stored };
}

test('a message with text and calls, told again in every way a server may', () => {
  const { live, stored } = stories();
  const frames = live.flat();
  const past = stored.flat();
  const whole = reduceAll(emptyState('s'), frames);
  const wrong = [];
  const same = (name, state) => {
    if (JSON.stringify(state) !== JSON.stringify(whole)) wrong.push(name);
  };
  same('stored', reduceAll(emptyState('s'), past));
  same('all of it twice', reduceAll(whole, frames));
  same('all of it, and then the past', reduceAll(whole, past));
  same('each frame twice', reduceAll(emptyState('s'), frames.flatMap((frame) => [frame, frame])));
  for (let cut = 0; cut <= frames.length; cut++) {
    const before = reduceAll(emptyState('s'), frames.slice(0, cut));
    const after = (seq) => stored.slice(seq).flat();
    for (let from = 0; from <= before.lastSeq; from++) {
      same(`cut at ${cut}, again after ${from}`, reduceAll(before, after(from)));
      same(`cut at ${cut}, resumed after ${from}`, reduceAll(withoutParts(before), after(from)));
    }
  }
  assert.deepEqual(wrong, []);
  const blocks = whole.entries[0].blocks.map((block) => block.text ?? block.callId);
  assert.deepEqual(blocks, [ALL, 'a', 'b', ALL, 'c', 'd', 'e', ALL]);
});

test('something new overtakes the past: it waits for its turn, and it is known that something is missing', () => {
  const { live, stored } = stories();
  const whole = JSON.stringify(reduceAll(emptyState('s'), live.flat()));
  const wrong = [];
  for (let known = 0; known < live.length; known++) {
    for (let early = known + 1; early < live.length; early++) {
      const state = reduceAll(emptyState('s'), [...stored.slice(0, known), ...live.slice(early)].flat());
      if (!hasGap(state) || state.lastSeq !== known) wrong.push(`${early} after ${known} is not missed`);
      if (JSON.stringify(reduceAll(state, stored.slice(known).flat())) !== whole) wrong.push(`${early} after ${known}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('any split of a text gives the same, each piece told twice and its end once more', () => {
  const text = 'Words, 汉字, 🎈🎉 and e\u0301 to the end.';
  const letters = [...text];
  const textOf = ({ entries }) => entries[0].blocks.map((block) => block.text).join('|');
  const found = new Set();
  for (let size = 1; size <= letters.length; size++) {
    let state = emptyState('s');
    for (let at = 0; at < letters.length; at += size) {
      const piece = chunk(1, at, letters.slice(at, at + size).join(''));
      state = reduce(reduce(state, piece), piece);
    }
    found.add(textOf(state));
    found.add(textOf(reduce(state, chunk(1, size, letters.slice(size).join('')))));
  }
  assert.deepEqual([...found], [text]);
});

test('a task whose message was not read comes before those with one', () => {
  const queued = event('message.appended', 'b', {}, { message: { role: 'user', content: 'second' } });
  const frames = [queued, event('task.started', 'a', {}), event('task.finished', 'a', {}), event('task.started', 'b', {})];
  const state = reduceAll(emptyState('s', 10), numbered(frames, 10));
  assert.deepEqual(state.entries.map(({ id }) => id), ['a', 'b']);
});

test('a task that runs is shown in the strictest mode since it began', () => {
  for (const [switches, shown] of [
    [['plan'], ['coding', 'plan']],
    [['chat_safe', 'coding'], ['coding', 'chat_safe']],
  ]) {
    const begun = ['a', 'b'].map((task) => event('task.started', task, { mode: 'coding' }));
    const changes = switches.map((mode) => event('session.mode_changed', null, { to_mode: mode }));
    const frames = [...begun, event('task.finished', 'a', {}), ...changes];
    const told = frames.map((frame) => ({ ...frame, data: { ...frame.data, event_id: frame.data.kind } }));
    const state = reduceAll(emptyState('s'), numbered(told));
    assert.deepEqual(state.entries.filter(({ type }) => type === 'task').map(({ mode }) => mode), shown);
  }
});

test('a refusal is never marked as done, in whatever order it is told of', () => {
  const about = { call_id: 'c', tool_name: 'read_file', mode: 'chat_safe', message: 'no', next_action: 'ask' };
  const of = { call_id: 'c', task_id: 't', tool_name: 'read_file', turn: 1 };
  const told = (kind) => event(kind, 't', { call_id: 'c' });
  const all = {
    call: frameOf('tool_call', { ...of, arguments: {} }),
    denied: { ...frameOf('tool_denied', { ...about, error_code: 'MODE_DENIED' }), task_id: 't' },
    result: frameOf('tool_result', { ...of, result: { ok: true, stdout: 'secret' } }),
    completed: told('tool_call.completed'),
    started: told('tool_call.started'),
    failed: told('tool_call.failed'),
  };
  const rest = ['result', 'completed', 'started', 'failed'];
  for (const first of [['call', 'denied'], ['call', 'started', 'denied'], ['call', 'failed', 'denied']]) {
    const state = reduceAll(emptyState('s'), numbered([...first, ...rest].map((each) => all[each])));
    assert.deepEqual(state.entries[0].blocks.map(({ status }) => status), ['denied'], first.join());
  }
});

test('a retry is noted before the text that comes again, and a text that is given up leaves nothing', () => {
  const retry = event('retry.scheduled', 't', {}, { event_id: 'e' });
  const shown = ({ entries }) => entries[0].blocks.map((block) => block.text ?? block.kind);
  const [started] = stories().live[0];
  const partly = reduceAll(emptyState('s'), [started, chunk(1, 0, 'Half of'), { ...retry, seq: 2 }]);
  assert.deepEqual(shown(partly), ['retry.scheduled', 'Half of']);
  const whole = [chunk(1, 0, 'All '), chunk(1, 4, 'of it'), chunk(1, 9, '.', 3)];
  assert.deepEqual(shown(reduceAll(partly, whole)), ['retry.scheduled', 'All of it.']);
  assert.deepEqual(shown(reduceAll(partly, [chunk(1, 30, 'too late')])), ['retry.scheduled', 'Half of']);
  assert.deepEqual(shown(reduceAll(partly, [chunk(2, 0, 'Another turn')])), ['retry.scheduled', 'Another turn']);
});

test('a refusal belongs to the task that its frame names, whichever has a call of that name', () => {
  const denial = (task) => ({ ...frameOf('tool_denied', { call_id: 'c', tool_name: 'bash', message: 'no' }), task_id: task });
  const begun = ['a', 'b'].map((task) => event('task.started', task, { mode: 'chat' }));
  const state = reduceAll(emptyState('s'), numbered([...begun, denial('b')]));
  assert.deepEqual(state.entries.map(({ id, blocks }) => [id, blocks.length]), [['a', 0], ['b', 1]]);
});

test('an answer that broke off leaves its place to the next, live and told again', () => {
  const broke = (seq) => frameOf('event', { kind: 'turn.discarded', task_id: 't', time_us: 2, event_id: 'e', payload: { turn: 1 } }, seq);
  const started = frameOf('event', { kind: 'task.started', task_id: 't', time_us: 1, payload: { mode: 'chat' } }, 1);
  const live = [started, chunk(1, 0, 'Half an '), chunk(1, 8, 'ans'), broke(2), chunk(1, 0, 'The whole.'), chunk(1, 10, '', 3)];
  const whole = reduceAll(emptyState('s'), live);
  const task = whole.entries.find((entry) => entry.id === 't');
  assert.deepEqual(task.blocks.map((block) => block.text ?? block.kind), ['turn.discarded', 'The whole.']);
  assert.deepEqual(reduceAll(emptyState('s'), [started, broke(2), chunk(1, 0, 'The whole.', 3)]), whole);
});

// -- reasoning ------------------------------------------------------------------------------------------

const thought = (turn, offset, content, durationMs = null) =>
  frameOf('reasoning_chunk', { task_id: 't', turn, offset, content, duration_ms: durationMs });
const completed = (turn, reasoning, seq) => {
  const payload = { turn, reasoning: reasoning && { text: reasoning, model: 'm' }, reasoning_ms: reasoning ? 1200 : null };
  return [frameOf('event', { kind: 'turn.completed', task_id: 't', time_us: 2, event_id: `e${turn}`, payload }), seq];
};
const BEGUN = frameOf('event', { kind: 'task.started', task_id: 't', time_us: 1, payload: { mode: 'chat' } }, 1);

test('reasoning stands before its turn, live and told again, whole however often it came', () => {
  const [first] = completed(1, 'Hm, 汉字🎈 so.');
  const [second] = completed(2, 'And now?');
  const stored = [BEGUN, first, call(1, 'a', 2), answer('a', 3), second, chunk(2, 0, 'Yes.', 4)];
  const live = [
    BEGUN, thought(1, 0, 'Hm, '), thought(1, 4, '汉字🎈'), thought(1, 7, ' so.'), thought(1, 11, '', 1200), ...stored.slice(1, 4),
    thought(2, 0, 'And'), thought(2, 3, ' now?', 1200), chunk(2, 0, 'Ye'), second, chunk(2, 2, 's.', 4),
  ];
  const whole = reduceAll(emptyState('s'), stored);
  assert.deepEqual(whole.entries[0].blocks.map((block) => block.text ?? block.callId), ['Hm, 汉字🎈 so.', 'a', 'And now?', 'Yes.']);
  assert.deepEqual(whole.entries[0].blocks[0].durationMs, 1200);
  assert.deepEqual(reduceAll(emptyState('s'), live), whole);
  assert.deepEqual(reduceAll(emptyState('s'), live.flatMap((frame) => [frame, frame])), whole);
  assert.deepEqual(reduceAll(whole, live), whole);
});

test('reasoning of an answer that broke off, or of a task that was cancelled, is taken back', () => {
  const blocksOf = (frames) => reduceAll(emptyState('s'), [BEGUN, ...frames]).entries[0].blocks.map((block) => block.text ?? block.kind);
  const broke = frameOf('event', { kind: 'turn.discarded', task_id: 't', time_us: 2, event_id: 'e', payload: { turn: 1 } }, 2);
  const half = [thought(1, 0, 'Half a thought'), chunk(1, 0, 'Half')];
  assert.deepEqual(blocksOf(half), ['Half a thought', 'Half']);
  assert.deepEqual(blocksOf([...half, broke]), ['turn.discarded']);
  assert.deepEqual(blocksOf([...half, broke, thought(1, 0, 'Another.', 5)]), ['turn.discarded', 'Another.']);
  assert.deepEqual(blocksOf([thought(1, 0, 'Half'), thought(2, 0, 'Of another turn')]), ['Of another turn']);
  const cancelled = frameOf('error', { code: 'CANCELLED', message: '', task_id: 't', time_us: 3 }, 2);
  assert.deepEqual(blocksOf([...half, cancelled]), ['Half']);
});

test('reasoning waits for no number, and changes no call that does', () => {
  const state = reduceAll(emptyState('s'), [BEGUN, call(1, 'a'), thought(2, 0, 'Early')]);
  assert.equal(state.parts.length, 1);
  assert.deepEqual(state.entries[0].blocks.map((block) => block.type), ['reasoning']);
});

// -- steering -------------------------------------------------------------------------------------------

/** A task that gets a message between its turns, and one that is queued behind it. */
function steering() {
  const said = (task, content) => event('message.appended', task, {}, { message: { role: 'user', content } });
  const queued = (task, steers = '') => event('task.queued', task, { task_id: task, message_seq: 0, who: 'me', steers });
  const given = { ...event('task.steered', 'u', { task_id: 'u', into: 't', message_seq: 4 }, { message: { role: 'user', content: 'go left' } }) };
  given.data.event_id = 'given';
  return numbered([
    said('t', 'go'), queued('t'), event('task.started', 't', { mode: 'chat' }), said('u', 'go left'), queued('u', 't'),
    call(1, 'a'), answer('a'), given, chunk(2, 0, 'Left it is.'), event('task.finished', 't', { status: 'done' }),
  ]);
}

test('a message that steers waits behind its task, and then stands within it', () => {
  const frames = steering();
  const before = reduceAll(emptyState('s'), frames.slice(0, 7));
  assert.deepEqual(before.entries.map(({ id, steers }) => [id, steers]), [['t', ''], ['u', 't']]);
  const whole = reduceAll(before, frames);
  assert.deepEqual(whole.entries.map(({ id }) => id), ['t']);
  const shown = ({ entries }) => entries[0].blocks.map((block) => block.text ?? block.message?.content ?? block.callId);
  assert.deepEqual(shown(whole), ['a', 'go left', 'Left it is.']);
  assert.deepEqual(reduceAll(emptyState('s'), frames.flatMap((frame) => [frame, frame])), whole);
  assert.deepEqual([...knownMessages(whole)].sort(), ['t', 'u']);
});

test('what stood before, put in front of it anywhere, leaves the message once', () => {
  const frames = steering();
  const contents = ({ entries }) => entries.flatMap((task) => [task.message?.content, ...task.blocks.map((block) => block.message?.content)]);
  for (let cut = 0; cut < frames.length; cut++) {
    const after = reduceAll(emptyState('s', cut), frames.slice(cut));
    const whole = prepend(after, frames.slice(0, cut), 0);
    assert.deepEqual(contents(whole).filter((content) => content === 'go left').length, 1, `cut at ${cut}`);
    assert.deepEqual(whole.entries.map(({ id }) => id), ['t'], `cut at ${cut}`);
  }
});
