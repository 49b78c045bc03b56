/** What the shell and the chat share: the list of sessions, and what this browser remembers. */
import { api } from './api.js';

const MANY = 200;
const LOOK_AGAIN_MS = 30_000;
/** While something is under way: what ends or waits in other sessions is not told to this page. */
const LOOK_SOONER_MS = 5_000;
const SOON_MS = 250;

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
  #timer = 0;

  constructor() {
    api.onState((state) => {
      if (state !== 'open') return;
      this.refresh();
      this.loadAgents();
    });
    api.onFrame((frame) => {
      const kind = frame.data?.kind ?? '';
      const ends = frame.type === 'error' || frame.data?.done === true;
      if (ends || kind.startsWith('session.') || kind.startsWith('task.')) this.refreshSoon();
    });
    setInterval(() => document.visibilityState === 'visible' && this.refreshSoon(), LOOK_AGAIN_MS);
    setInterval(() => this.#isWorking() && this.refreshSoon(), LOOK_SOONER_MS);
  }

  #isWorking() {
    return this.sessions?.some(({ work }) => work === 'queued' || work === 'running') ?? false;
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

  refreshSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.refresh(), SOON_MS);
  }

  async refresh() {
    try {
      const lists = ['chats', 'commands'].map((group) => api.request('session.list', { group, archived: true, limit: MANY }));
      this.sessions = (await Promise.all(lists)).flatMap(({ sessions }) => sessions).toSorted((a, b) => b.updated_us - a.updated_us);
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

  /** What a method answered with. @param {any} session */
  put(session) {
    const others = (this.sessions ?? []).filter((each) => each.id !== session.id);
    const known = { work: this.session(session.id)?.work ?? null, ...session };
    this.sessions = [known, ...others].toSorted((a, b) => b.updated_us - a.updated_us);
    this.#tell();
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
