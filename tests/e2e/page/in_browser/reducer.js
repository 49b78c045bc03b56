// Evaluated in the page by test_modules.py: the frames of a session as the server tells them, and what becomes of them.
async (id) => {
  const { emptyState, prepend, reduce, reduceAll, withoutParts } = await import('/static/js/chat/reducer.js');
  const shown = ({ entries }) => JSON.stringify(entries, (key, value) => (key === 'key' ? undefined : value));

  const frames = await new Promise((resolve) => {
    const found = [];
    let last = Infinity;
    const socket = new WebSocket(`ws://${location.host}/ws`);
    const params = { session_id: id, after_seq: 0 };
    socket.onopen = () => socket.send(JSON.stringify({ type: 'request', id: 1, method: 'session.subscribe', params }));
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.type === 'response') last = frame.data.last_seq;
      else found.push(frame);
      if (!found.some(({ seq }) => seq >= last)) return;
      socket.close();
      resolve(found);
    };
  });

  /** Once, each frame twice, all of it twice, and with frames of another session. */
  const twice = () => {
    const once = reduceAll(emptyState(id), frames);
    const doubled = frames.reduce((state, frame) => reduce(reduce(state, frame), frame), emptyState(id));
    const again = reduceAll(once, frames);
    const others = reduceAll(once, frames.map((frame) => ({ ...frame, session_id: 's_other' })));
    return [once, doubled, again, others].map((state) => JSON.stringify(state));
  };

  /** Cut off anywhere and come back; or read the end first and the beginning later. */
  const cuts = () => {
    const whole = shown(reduceAll(emptyState(id), frames));
    const wrong = [];
    for (let cut = 0; cut <= frames.length; cut++) {
      const known = frames.findLastIndex(({ seq }, at) => at < cut && seq !== null);
      const back = withoutParts(reduceAll(emptyState(id), frames.slice(0, cut)));
      if (shown(reduceAll(back, frames.slice(known + 1))) !== whole) wrong.push(`resumed at ${cut}`);
      if (cut && frames[cut - 1].seq === null) continue;
      const late = reduceAll(emptyState(id, frames[cut - 1]?.seq ?? 0), frames.slice(cut));
      if (shown(prepend(late, frames.slice(0, cut), 0)) !== whole) wrong.push(`read back from ${cut}`);
    }
    return wrong;
  };

  return [frames.length, twice(), cuts()];
}
