/**
 * The one socket to the server. Reconnects by itself, and then goes on where each followed session stood.
 *
 * @typedef {{type: string, id: (string|number|null), session_id: (string|null), seq: (number|null),
 *   task_id: (string|null), data: any}} Frame
 * @typedef {'connecting'|'open'|'closed'|'login'} State
 */

const FIRST_DELAY_MS = 500;
const LAST_DELAY_MS = 10_000;
const PROBE_MS = 5_000;
/** A network that swallows everything, as right after sleep, would else keep it waiting for minutes. */
const CONNECT_MS = 15_000;
const REVOKED = 4401;
const SLOW_DOWN = 1008;

export class ApiError extends Error {
  /** @param {string} code @param {string} message @param {object} [data] */
  constructor(code, message, data = {}) {
    super(message);
    this.name = 'ApiError';
    this.code = code;
    this.data = data;
  }
}

class ApiClient {
  /** What `server.info` last said; null before the first connection. */
  info = null;
  /** @type {State} */
  state = 'closed';

  #socket = null;
  #nextId = 1;
  #pending = new Map();
  #waiting = [];
  #followed = new Map();
  #frameListeners = new Set();
  #stateListeners = new Set();
  #delay = FIRST_DELAY_MS;
  #timer = 0;
  #attempt = 0;
  #listens = false;

  /** Every frame that is not the answer to a request. @param {(frame: Frame) => void} fn */
  onFrame(fn) {
    this.#frameListeners.add(fn);
    return () => this.#frameListeners.delete(fn);
  }

  /** Called at once with the present state, and at every change. @param {(state: State) => void} fn */
  onState(fn) {
    this.#stateListeners.add(fn);
    fn(this.state);
    return () => this.#stateListeners.delete(fn);
  }

  /**
   * One request. While the socket is being opened it waits; while there is none it fails with DISCONNECTED.
   * @param {string} method @param {Record<string, any>} [params] @returns {Promise<any>}
   */
  request(method, params = {}) {
    // Also while there is no connection: the next one is not to follow it again.
    if (method === 'session.unsubscribe') this.#followed.delete(params.session_id);
    if (this.state === 'open') return this.#send(method, params);
    if (this.state === 'connecting') {
      return new Promise((resolve, reject) => this.#waiting.push({ method, params, resolve, reject }));
    }
    return Promise.reject(disconnected());
  }

  /** The number up to which everything was seen of a followed session. */
  lastSeq(sessionId) {
    return this.#followed.get(sessionId) ?? 0;
  }

  connect() {
    this.#listenToBrowser();
    if (this.#socket || (this.state === 'connecting' && this.#attempt)) return;
    clearTimeout(this.#timer);
    this.#open(++this.#attempt);
  }

  /** Ends the connection and stays so until `connect`. */
  disconnect() {
    this.#attempt++;
    clearTimeout(this.#timer);
    this.#drop();
    this.#setState('closed');
  }

  async #open(attempt) {
    this.#setState('connecting');
    const allowed = await this.#mayEnter();
    if (attempt !== this.#attempt) return;
    if (allowed === false) {
      this.#failAll();
      this.#setState('login');
      this.#attempt = 0;
      return;
    }
    if (allowed === null) {
      this.#later();
      return;
    }
    const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(`${scheme}//${location.host}/ws`);
    this.#socket = socket;
    socket.onopen = () => this.#greet(socket);
    socket.onmessage = (message) => this.#receive(message.data);
    socket.onclose = (event) => socket === this.#socket && this.#closed(event.code);
    setTimeout(() => socket === this.#socket && this.state === 'connecting' && this.#closed(0), CONNECT_MS);
  }

  /** A refused socket gives no reason; this request does. null: no answer. */
  async #mayEnter() {
    const giving = new AbortController();
    const timer = setTimeout(() => giving.abort(), CONNECT_MS);
    try {
      const answer = await fetch('/whoami', { cache: 'no-store', signal: giving.signal });
      return answer.ok ? (await answer.json()).who !== null : null;
    } catch {
      return null;
    } finally {
      clearTimeout(timer);
    }
  }

  async #greet(socket) {
    try {
      this.info = await this.#send('server.info', {});
    } catch {
      if (socket === this.#socket) socket.close();
      return;
    }
    if (socket !== this.#socket) return;
    this.#delay = FIRST_DELAY_MS;
    for (const [sessionId, seq] of this.#followed) {
      this.#send('session.subscribe', { session_id: sessionId, after_seq: seq }).catch((error) => {
        if (error.code === 'SESSION_NOT_FOUND') this.#followed.delete(sessionId);
      });
    }
    this.#setState('open');
    for (const { method, params, resolve, reject } of this.#waiting.splice(0)) {
      this.#send(method, params).then(resolve, reject);
    }
  }

  #send(method, params) {
    const socket = this.#socket;
    if (!socket || socket.readyState !== WebSocket.OPEN) return Promise.reject(disconnected());
    const id = String(this.#nextId++);
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { method, params, resolve, reject });
      socket.send(JSON.stringify({ type: 'request', id, method, params }));
    });
  }

  #receive(text) {
    /** @type {Frame} */
    let frame;
    try {
      frame = JSON.parse(text);
    } catch {
      return;
    }
    const request = frame.id === null ? undefined : this.#pending.get(String(frame.id));
    // The end of a task carries the number of the request that set it going, and is not its answer.
    if (request && (frame.type === 'response' || (frame.type === 'error' && !frame.data?.task_id))) {
      this.#pending.delete(String(frame.id));
      this.#settle(request, frame);
      return;
    }
    // A frame that overtook others does not count: they are to come again if the connection breaks before them.
    if (frame.seq === this.#followed.get(frame.session_id) + 1) this.#followed.set(frame.session_id, frame.seq);
    for (const listener of this.#frameListeners) listener(frame);
  }

  #settle(request, frame) {
    const { method, params, resolve, reject } = request;
    if (frame.type === 'error') {
      const { code = 'INTERNAL_ERROR', message = '' } = frame.data ?? {};
      reject(new ApiError(code, message, frame.data));
      return;
    }
    const sessionId = params?.session_id;
    if (method === 'session.subscribe') {
      // All up to this number came before the answer.
      const last = frame.data?.last_seq ?? params.after_seq ?? 0;
      this.#followed.set(sessionId, Math.max(last, this.lastSeq(sessionId)));
    } else if (method === 'session.unsubscribe' || method === 'session.delete') {
      this.#followed.delete(sessionId);
    }
    resolve(frame.data ?? {});
  }

  #closed(code) {
    this.#drop();
    if (code === REVOKED) {
      this.#failAll();
      this.#attempt = 0;
      this.#setState('login');
      return;
    }
    if (code === SLOW_DOWN) this.#delay = LAST_DELAY_MS;
    this.#later();
  }

  #later() {
    this.#failAll();
    this.#attempt = 0;
    this.#setState('closed');
    const wait = this.#delay * (0.75 + Math.random() / 2);
    this.#delay = Math.min(this.#delay * 2, LAST_DELAY_MS);
    this.#timer = setTimeout(() => this.connect(), wait);
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
    this.#failPending();
  }

  #failPending() {
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject } of pending) reject(disconnected());
  }

  #failAll() {
    this.#failPending();
    for (const { reject } of this.#waiting.splice(0)) reject(disconnected());
  }

  #setState(state) {
    if (state === this.state) return;
    this.state = state;
    for (const listener of this.#stateListeners) listener(state);
  }

  #listenToBrowser() {
    if (this.#listens) return;
    this.#listens = true;
    const now = () => {
      if (document.visibilityState === 'hidden') return;
      if (this.state === 'closed') {
        this.#delay = FIRST_DELAY_MS;
        this.connect();
      } else if (this.state === 'open') {
        this.#probe();
      }
    };
    addEventListener('online', now);
    document.addEventListener('visibilitychange', now);
  }

  /** After sleep a socket can look open and be dead. */
  async #probe() {
    const socket = this.#socket;
    const timer = setTimeout(() => socket === this.#socket && this.#closed(0), PROBE_MS);
    try {
      this.info = await this.#send('server.info', {});
    } catch {
      // It was closed, and is opened again elsewhere.
    } finally {
      clearTimeout(timer);
    }
  }
}

function disconnected() {
  return new ApiError('DISCONNECTED', 'the connection is down');
}

export const api = new ApiClient();
