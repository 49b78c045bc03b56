// Evaluated in the page by test_modules.py, with the name of a check and what it is given.
async ([name, ...given]) => {
  const { emptyState, isBehind, prepend, reduce, reduceAll, resume } = await import('/static/js/chat/reducer.js');
  const frameOf = (type, data, seq = null) => ({ type, id: null, session_id: 's', seq, data });
  const shown = ({ entries }) => JSON.stringify(entries, (key, value) => (key === 'key' ? undefined : value));

  /** Four answers as they come live, and as they are told later: text and calls, calls alone, text alone. */
  const stories = (words) => {
    const chunk = (offset, content, seq) => frameOf('stream_chunk', { task_id: 't', offset, content, done: false }, seq);
    const call = (id, seq) => frameOf('tool_call', { task_id: 't', call_id: id, tool_name: 'current_time', arguments: {} }, seq);
    const answer = (id, seq) => frameOf('tool_result', { task_id: 't', call_id: id, tool_name: 'current_time', result: { ok: true } }, seq);
    const started = frameOf('event', { kind: 'task.started', task_id: 't', time_us: 1, payload: { mode: 'chat' } }, 1);
    const renamed = frameOf('event', { kind: 'session.renamed', task_id: null, time_us: 2, payload: {} }, 4);
    const [first, second, ...rest] = words;
    const all = words.join('');
    const at = (n) => [...words.slice(0, n).join('')].length;
    const live = [
      [started],
      [chunk(0, first), chunk(at(1), second), chunk(at(2), rest.join('')), call('a'), call('b', 2)],
      [answer('a', 3)],
      [chunk(0, first), renamed],
      [chunk(at(1), all.slice(first.length)), call('c', 5)],
      [call('d'), call('e', 6)],
      [chunk(0, first), chunk(at(1), all.slice(first.length), 7)],
    ];
    const stored = [
      [started],
      [chunk(0, all), call('a'), call('b', 2)],
      [answer('a', 3)],
      [renamed],
      [chunk(0, all), call('c', 5)],
      [call('d'), call('e', 6)],
      [chunk(0, all, 7)],
    ];
    return { live, stored };
  };

  const WORDS = ['One, ', '汉字 ', '🎈🎉 ', 'and e\u0301.'];

  const checks = {
    /** A message with text and calls, told again in every way a server may: nothing is doubled, nothing is lost. */
    again(words = WORDS) {
      const { live, stored } = stories(words);
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
          same(`cut at ${cut}, resumed after ${from}`, reduceAll(resume(before), after(from)));
        }
      }
      const all = words.join('');
      const blocks = whole.entries[0].blocks.map((block) => block.text ?? block.callId);
      if (String(blocks) !== String([all, 'a', 'b', all, 'c', 'd', 'e', all])) wrong.push(`shown: ${blocks}`);
      return wrong;
    },

    /** Something new overtakes the past. It waits for its turn, and it is known that something is missing. */
    overtaken(words = WORDS) {
      const { live, stored } = stories(words);
      const whole = JSON.stringify(reduceAll(emptyState('s'), live.flat()));
      const wrong = [];
      for (let known = 0; known < live.length; known++) {
        for (let early = known + 1; early < live.length; early++) {
          const state = reduceAll(emptyState('s'), [...stored.slice(0, known), ...live.slice(early)].flat());
          if (!isBehind(state) || state.lastSeq !== known) wrong.push(`${early} after ${known} is not missed`);
          if (JSON.stringify(reduceAll(state, stored.slice(known).flat())) !== whole) wrong.push(`${early} after ${known}`);
        }
      }
      return wrong;
    },

    /** Every frame of a session, as the server tells them. */
    frames(id) {
      return new Promise((resolve) => {
        const frames = [];
        let last = Infinity;
        const socket = new WebSocket(`ws://${location.host}/ws`);
        const params = { session_id: id, after_seq: 0 };
        socket.onopen = () => socket.send(JSON.stringify({ type: 'request', id: 1, method: 'session.subscribe', params }));
        socket.onmessage = ({ data }) => {
          const frame = JSON.parse(data);
          if (frame.type === 'response') last = frame.data.last_seq;
          else frames.push(frame);
          if (!frames.some(({ seq }) => seq >= last)) return;
          socket.close();
          resolve(frames);
        };
      });
    },

    twice(id, frames) {
      const once = reduceAll(emptyState(id), frames);
      let doubled = emptyState(id);
      for (const frame of frames) {
        doubled = reduce(doubled, frame);
        doubled = reduce(doubled, frame);
      }
      const again = reduceAll(once, frames);
      const others = reduceAll(once, frames.map((frame) => ({ ...frame, session_id: 's_other' })));
      return [once, doubled, again, others].map((state) => JSON.stringify(state));
    },

    /** Cut off anywhere and come back; or read the end first and the beginning later. */
    cuts(id, frames) {
      const whole = shown(reduceAll(emptyState(id), frames));
      const wrong = [...checks.again(), ...checks.overtaken()];
      for (let cut = 0; cut <= frames.length; cut++) {
        const known = frames.findLastIndex(({ seq }, at) => at < cut && seq !== null);
        const back = resume(reduceAll(emptyState(id), frames.slice(0, cut)));
        if (shown(reduceAll(back, frames.slice(known + 1))) !== whole) wrong.push(`resumed at ${cut}`);
        if (cut && frames[cut - 1].seq === null) continue;
        const late = reduceAll(emptyState(id, frames[cut - 1]?.seq ?? 0), frames.slice(cut));
        if (shown(prepend(late, frames.slice(0, cut), 0)) !== whole) wrong.push(`read back from ${cut}`);
      }
      return wrong;
    },

    /** The text in pieces of every size, each piece told twice; and its end told once more. */
    splits(text) {
      const letters = [...text];
      const chunk = (offset, content) => frameOf('stream_chunk', { task_id: 't', offset, content, done: false });
      const textOf = ({ entries }) => entries[0].blocks.map((block) => block.text).join('|');
      const found = new Set();
      for (let size = 1; size <= letters.length; size++) {
        let state = emptyState('s');
        for (let at = 0; at < letters.length; at += size) {
          const piece = chunk(at, letters.slice(at, at + size).join(''));
          state = reduce(reduce(state, piece), piece);
        }
        found.add(textOf(state));
        found.add(textOf(reduce(state, chunk(size, letters.slice(size).join('')))));
      }
      return [...found];
    },

    /** Read from the middle, where the second message stands and the first does not: the first task comes first. */
    order() {
      const event = (kind, task, payload, more = {}) => frameOf('event', { kind, task_id: task, time_us: 1, payload, ...more });
      const queued = event('message.appended', 'b', {}, { message: { role: 'user', content: 'second' } });
      const frames = [queued, event('task.started', 'a', {}), event('task.finished', 'a', {}), event('task.started', 'b', {})];
      const state = reduceAll(emptyState('s', 10), frames.map((frame, at) => ({ ...frame, seq: at + 11 })));
      return state.entries.map(({ id }) => id);
    },

    /** The modes of a task that ended and of one that runs, after each switch of the session's mode. */
    modes(switches) {
      const event = (kind, task, payload) => frameOf('event', { kind, task_id: task, time_us: 1, event_id: kind, payload });
      const begun = ['a', 'b'].map((task) => event('task.started', task, { mode: 'coding' }));
      const changes = switches.map((mode) => event('session.mode_changed', null, { to_mode: mode }));
      const frames = [...begun, event('task.finished', 'a', {}), ...changes];
      const state = reduceAll(emptyState('s'), frames.map((frame, at) => ({ ...frame, seq: at + 1 })));
      return state.entries.filter(({ type }) => type === 'task').map(({ mode }) => mode);
    },

    /** What becomes of a call that was refused, in whatever order it is told of. */
    refused(order) {
      const call = { call_id: 'c', task_id: 't', tool_name: 'read_file' };
      const about = { call_id: 'c', tool_name: 'read_file', mode: 'chat_safe', message: 'no', next_action: 'ask' };
      const event = (kind) => frameOf('event', { kind, task_id: 't', time_us: 1, payload: { call_id: 'c' } });
      const all = {
        call: frameOf('tool_call', { ...call, arguments: {} }),
        denied: frameOf('tool_denied', { ...about, error_code: 'MODE_DENIED' }),
        result: frameOf('tool_result', { ...call, result: { ok: true, stdout: 'secret' } }),
        completed: event('tool_call.completed'),
        started: event('tool_call.started'),
        failed: event('tool_call.failed'),
      };
      const state = reduceAll(emptyState('s'), order.map((each, at) => ({ ...all[each], seq: at + 1 })));
      return state.entries[0].blocks.map(({ status }) => status);
    },
  };
  return checks[name](...given);
}
