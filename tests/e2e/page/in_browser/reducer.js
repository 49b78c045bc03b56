// Evaluated in the page by test_modules.py, with the name of a check and what it is given.
async ([name, ...given]) => {
  const { emptyState, prepend, reduce, reduceAll, resume } = await import('/static/js/chat/reducer.js');
  const frameOf = (type, data, seq = null) => ({ type, id: null, session_id: 's', seq, data });
  const shown = ({ entries }) => JSON.stringify(entries, (key, value) => (key === 'key' ? undefined : value));

  const checks = {
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
        if (frame.seq !== null) doubled = reduce(doubled, frame);
      }
      const again = reduceAll(once, frames.filter(({ seq }) => seq !== null));
      const others = reduceAll(once, frames.map((frame) => ({ ...frame, session_id: 's_other' })));
      return [once, doubled, again, others].map((state) => JSON.stringify(state));
    },

    /** Cut off anywhere and come back; or read the end first and the beginning later. */
    cuts(id, frames) {
      const whole = shown(reduceAll(emptyState(id), frames));
      const wrong = [];
      for (let cut = 0; cut <= frames.length; cut++) {
        const known = frames.findLastIndex(({ seq }, at) => at < cut && seq !== null);
        const back = resume(reduceAll(emptyState(id), frames.slice(0, cut)));
        if (shown(reduceAll(back, frames.slice(known + 1))) !== whole) wrong.push(`resumed at ${cut}`);
        if (cut && frames[cut - 1].seq === null) continue;
        const late = reduceAll(emptyState(id, 1), frames.slice(cut));
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
      const state = reduceAll(emptyState('s'), order.map((each) => all[each]));
      return state.entries[0].blocks.map(({ status }) => status);
    },
  };
  return checks[name](...given);
}
