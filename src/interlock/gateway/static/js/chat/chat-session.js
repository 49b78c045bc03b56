/** One session as the page follows it: frames in, state out, and what the person does with it. No DOM but its clock. */
import { api } from '../api.js';
import { store } from '../session-store.js';
import { emptyState, hasEnded, hasGap, knownMessages, prepend, reduceAll, tasksOf, withoutParts } from './reducer.js';

const AT_ONCE = 400;
const EARLIER = 400;
const HIDDEN_MS = 300;
const MODE_EVENTS = new Set(['session.mode_changed', 'session.model_changed', 'session.renamed', 'session.archived']);

/** The form that the server takes: t_ and 16 hex digits. */
export function newTaskId() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return `t_${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

const isWaiting = ({ error }) => error?.code === 'DISCONNECTED';

/** Messages that the server had not confirmed when their session was left. */
const unsent = new Map();

api.onState((state) => {
  // The next login may be another person.
  if (state === 'login') unsent.clear();
  if (state === 'open') for (const [id, messages] of unsent) deliverLeft(id, messages);
});

const sending = (id, { content, taskId, steer }) => ({
  session_id: id,
  content,
  task_id: taskId,
  ...(steer ? { steer } : {}),
});

/** It was said that they will be sent, whatever is shown by then. The server takes each once. */
async function deliverLeft(id, messages) {
  for (const message of messages.filter(isWaiting)) {
    message.error = null;
    try {
      await api.request('chat.send', sending(id, message));
    } catch (error) {
      message.error = error;
    }
  }
  // Where the session is shown again, what comes of it is wanted.
  if (unsent.get(id) !== messages) return;
  const left = messages.filter(({ error }) => error);
  if (left.length) unsent.set(id, left);
  else unsent.delete(id);
  api.request('session.unsubscribe', { session_id: id }).catch(() => {});
}

export class ChatSession {
  /** What `session.get` last said: the server's truth about mode, model and title. */
  session = null;
  mode = '';
  /** @type {'loading'|'ready'|'gone'|'failed'} */
  phase = 'loading';
  problem = null;
  loadingEarlier = false;
  /** Messages that the server has not confirmed: {taskId, content, steer, error}. */
  pending = [];

  #queue = [];
  #frame = 0;
  #timer = 0;
  #off = [];
  #isClosed = false;
  #mendedAfter = -1;
  #ended = null;

  /**
   * @param {string} id
   * @param {() => void} onChange
   * @param {(task: import('./reducer.js').TaskEntry) => void} onEnd a task ended while we looked
   */
  constructor(id, onChange, onEnd) {
    this.id = id;
    this.pending = unsent.get(id) ?? [];
    unsent.delete(id);
    this.state = emptyState(id);
    this.onChange = onChange;
    this.onEnd = onEnd;
    this.#off = [api.onFrame((frame) => this.#take(frame)), api.onState((state) => this.#connection(state))];
  }

  close() {
    this.#isClosed = true;
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
    for (const off of this.#off) off();
    if (this.pending.length) unsent.set(this.id, this.pending);
    api.request('session.unsubscribe', { session_id: this.id }).catch(() => {});
  }

  async #connection(state) {
    if (state === 'open') {
      if (this.phase === 'ready') await this.#refresh();
      else await this.#load();
      this.#sendAgain();
    } else {
      this.#flush();
      this.state = withoutParts(this.state);
      this.onChange();
    }
  }

  async #load() {
    this.phase = 'loading';
    this.problem = null;
    this.#queue = [];
    try {
      const [{ from_seq: from, last_seq: last }] = await Promise.all([
        api.request('session.subscribe', { session_id: this.id, last: AT_ONCE }),
        this.#refresh(true),
      ]);
      this.state = emptyState(this.id, from ?? 0);
      this.firstSeq = last;
      this.phase = 'ready';
      this.#flush();
    } catch (error) {
      if (error.code === 'DISCONNECTED') return;
      this.phase = error.code === 'SESSION_NOT_FOUND' ? 'gone' : 'failed';
      this.problem = error;
    }
    if (!this.#isClosed) this.onChange();
  }

  retryLoad() {
    this.#load();
    this.onChange();
  }

  /** @param {boolean} [strict] whether a failure is the caller's */
  async #refresh(strict = false) {
    try {
      const { session, mode } = await api.request('session.get', { session_id: this.id });
      this.session = session;
      this.mode = mode ?? session.mode;
      if (!this.#isClosed) this.onChange();
    } catch (error) {
      if (strict) throw error;
      if (error.code === 'SESSION_NOT_FOUND') this.phase = 'gone';
    }
  }

  // -- frames --

  #take(frame) {
    if (frame.session_id !== this.id || frame.type === 'response' || frame.type === 'session_changed') return;
    this.#queue.push(frame);
    if (MODE_EVENTS.has(frame.data?.kind)) this.#refresh();
    if (frame.data?.kind === 'session.deleted') {
      this.phase = 'gone';
      this.onChange();
    }
    if (this.#frame || this.#timer) return;
    // A page that is not seen gets no animation frames.
    if (document.visibilityState === 'hidden') this.#timer = setTimeout(() => this.#flush(), HIDDEN_MS);
    else this.#frame = requestAnimationFrame(() => this.#flush());
  }

  #flush() {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
    this.#frame = this.#timer = 0;
    const frames = this.#queue;
    // What comes while it loads waits: it may come before what it follows.
    if (!frames.length || this.#isClosed || this.phase !== 'ready') return;
    this.#queue = [];
    this.state = reduceAll(this.state, frames);
    const known = knownMessages(this.state);
    this.pending = this.pending.filter((each) => !known.has(each.taskId));
    this.#tellEnds();
    this.onChange();
    if (hasGap(this.state)) this.#mend();
  }

  /** Something is missing: it is asked for, once. */
  #mend() {
    const after = this.state.lastSeq;
    if (after === this.#mendedAfter) return;
    this.#mendedAfter = after;
    api.request('session.subscribe', { session_id: this.id, after_seq: after }).catch(() => {});
  }

  /** Only tasks that end while the page is open: earlier ends are not announced. */
  #tellEnds() {
    const ended = tasksOf(this.state).filter(hasEnded);
    if (this.#ended === null || this.state.lastSeq <= (this.firstSeq ?? Infinity)) {
      this.#ended = new Set(ended.map((task) => task.id));
      return;
    }
    for (const task of ended) {
      if (this.#ended.has(task.id)) continue;
      this.#ended.add(task.id);
      this.onEnd(task);
    }
  }

  async loadEarlier() {
    if (this.loadingEarlier || this.state.fromSeq <= 0) return;
    this.loadingEarlier = true;
    this.onChange();
    try {
      const before = this.state.fromSeq + 1;
      const answer = await api.request('session.earlier', { session_id: this.id, before_seq: before, limit: EARLIER });
      this.state = prepend(this.state, answer.frames, answer.from_seq);
    } catch (error) {
      this.problem = error;
    }
    this.loadingEarlier = false;
    this.onChange();
  }

  // -- what the person does --

  /** @param {string} content @param {boolean} [steer] whether the task at work is to get it */
  send(content, steer = false, taskId = newTaskId()) {
    const message = { taskId, content, steer, error: null };
    this.pending = [...this.pending.filter((each) => each.taskId !== taskId), message];
    this.onChange();
    this.#deliver(message);
  }

  async #deliver(message) {
    message.error = null;
    try {
      await api.request('chat.send', sending(this.id, message));
    } catch (error) {
      // Sent again with the same id when the connection is back; the server takes it once.
      message.error = error;
      this.onChange();
    }
  }

  #sendAgain() {
    for (const message of this.pending) if (isWaiting(message)) this.#deliver(message);
  }

  resend(message) {
    this.#deliver(message);
    this.onChange();
  }

  dropPending(message) {
    this.pending = this.pending.filter((each) => each !== message);
    this.onChange();
  }

  cancel(taskId) {
    return api.request('chat.cancel', { session_id: this.id, task_id: taskId });
  }

  retry(taskId) {
    return api.request('tasks.retry', { task_id: taskId });
  }

  undo(taskId) {
    return api.request('tasks.undo', { task_id: taskId });
  }

  redo(taskId, undoId) {
    return api.request('tasks.undo', { task_id: taskId, undo_id: undoId });
  }

  async rename(title) {
    this.#changed((await api.request('session.rename', { session_id: this.id, title })).session);
  }

  async setMode(mode) {
    const answer = await api.request('session.set_mode', { session_id: this.id, mode });
    this.mode = answer.mode ?? answer.session.mode;
    this.#changed(answer.session);
  }

  async setModel(model) {
    const params = model ? { session_id: this.id, model } : { session_id: this.id };
    this.#changed((await api.request('session.set_model', params)).session);
  }

  #changed(session) {
    this.session = session;
    this.mode = session.mode;
    store.put(session);
    this.onChange();
  }
}
