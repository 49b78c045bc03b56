/** What the shell and the chat share: the list of sessions, and what this browser remembers. */
import { api } from './api.js';

const MANY = 200;
const LISTED = new Set(['chats', 'commands']);

/** What is kept here is convenience only: drafts, the theme, whether the tour was seen. */
export const kept = {
  get(name, fallback = '') {
    try {
      return localStorage.getItem(`interlock.${name}`) ?? fallback;
    } catch {
      return fallback;
    }
  },
  set(name, value) {
    try {
      if (value) localStorage.setItem(`interlock.${name}`, value);
      else localStorage.removeItem(`interlock.${name}`);
    } catch {
      // A browser that keeps nothing: it holds until the page is closed.
    }
  },
};

class SessionStore {
  /** @type {any[]|null} newest first; null until they are known */
  sessions = null;
  /** @type {any[]} */
  agents = [];
  #listeners = new Set();

  constructor() {
    api.onState((state) => {
      if (state !== 'open') return;
      // Watched first: nothing changes unseen before the list is read.
      const watched = api.request('session.watch').catch(() => {});
      watched.then(() => this.refresh());
      this.loadAgents();
    });
    api.onFrame((frame) => {
      if (frame.type !== 'session_changed') return;
      const { session } = frame.data;
      if (!session) this.drop(frame.session_id);
      else if (LISTED.has(session.group)) this.put(session);
    });
  }

  /** How many sessions wait for an answer. */
  get waiting() {
    return this.sessions?.filter(({ work, archived }) => work === 'waiting' && !archived).length ?? 0;
  }

  /** @param {() => void} fn */
  onChange(fn) {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  }

  async refresh() {
    try {
      const lists = ['chats', 'commands'].map((group) => api.request('session.list', { group, archived: true, limit: MANY }));
      const listed = (await Promise.all(lists)).flatMap(({ sessions }) => sessions);
      this.sessions = listed.map((session) => this.#newer(session)).toSorted((a, b) => b.updated_us - a.updated_us);
      this.#tell();
    } catch {
      // Told by the connection's state; it is asked for again when it is back.
    }
  }

  async loadAgents() {
    try {
      ({ agents: this.agents } = await api.request('agents.list'));
      this.#tell();
    } catch {
      this.agents = [];
    }
  }

  session(id) {
    return this.sessions?.find((session) => session.id === id) ?? null;
  }

  /** What a method answered with, or the server reported. @param {any} session */
  put(session) {
    const others = (this.sessions ?? []).filter((each) => each.id !== session.id);
    const known = this.#newer({ work: this.session(session.id)?.work ?? null, ...session });
    this.sessions = [known, ...others].toSorted((a, b) => b.updated_us - a.updated_us);
    this.#tell();
  }

  /** What was read first may come last. */
  #newer(session) {
    const known = this.session(session.id);
    return known && known.last_seq > session.last_seq ? known : session;
  }

  drop(id) {
    this.sessions = (this.sessions ?? []).filter((each) => each.id !== id);
    this.#tell();
  }

  #tell() {
    for (const fn of this.#listeners) fn();
  }
}

export const store = new SessionStore();

/** Names of the models, whatever form the server gives them in. */
export function modelNames() {
  return (api.info?.models ?? []).map((model) => (typeof model === 'string' ? model : model.name));
}

// -- saying something to a screen reader -------------------------------------------------------------

let region = null;

/** @param {string} text */
export function announce(text) {
  if (!region) {
    region = document.createElement('div');
    region.className = 'sr-only';
    region.setAttribute('role', 'status');
    region.setAttribute('aria-live', 'polite');
    document.body.append(region);
  }
  region.textContent = '';
  setTimeout(() => (region.textContent = text.slice(0, 600)), 50);
}
