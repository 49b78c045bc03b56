/** The side bar: the views, the sessions, and this browser's own choices. */
import { html, nothing } from 'lit';
import { repeat } from 'lit/directives/repeat.js';
import { api } from '../api.js';
import { PageElement } from '../page-element.js';
import { icon, logo } from '../icons.js';
import { store } from '../session-store.js';
import { LANGUAGES, formatMoment, formatTime, language, setLanguage, t } from '../i18n.js';
import { THEMES, setTheme, theme } from '../theme.js';
import { leave } from './login.js';
import { sessionMenuItems, sessionTitle } from './session-actions.js';
import '../menu.js';

/** @type {import('../icons.js').IconName[]} */
const NAV = ['chat', 'workflows', 'authority', 'activity', 'servers', 'settings'];
/** A run is found under its workflow. @param {string} name of a route */
export const navEntryOf = (name) => (name === 'runs' ? 'workflows' : name);
/** @type {Record<string, import('../icons.js').IconName>} */
const THEME_ICONS = { auto: 'auto', light: 'sun', dark: 'moon' };
const TYPING_MS = 250;

class Sidebar extends PageElement {
  static properties = {
    route: { attribute: false },
    state: {},
    query: { state: true },
    hits: { state: true },
    renaming: { state: true },
    unfolded: { state: true },
  };

  #timer = 0;

  constructor() {
    super();
    /** @type {{name: string, parts: string[]}} */
    this.route = undefined;
    /** @type {import('../api.js').State} */
    this.state = undefined;
    this.query = '';
    /** What was found, or why nothing could be; null while it is looked for. @type {any} */
    this.hits = null;
    this.renaming = '';
    /** Which folded lists are open. @type {Set<string>} */
    this.unfolded = new Set();
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(store.onChange(() => this.requestUpdate()));
  }

  render() {
    return html`<nav class="side" aria-label=${t('nav.label')}>
      <a class="brand" href="#/chat">${logo()}<span>Interlock</span></a>
      <ul class="nav">
        ${NAV.map(
          (name) => html`<li>
            <a href="#/${name}" aria-current=${navEntryOf(this.route.name) === name ? 'page' : nothing}>${icon(name)}${t(`nav.${name}`)}</a>
          </li>`,
        )}
      </ul>
      <div class="side-tools">
        <a class="btn new-session" href="#/chat" @click=${() => this.#leave()}>${icon('plus')}${t('sessions.new')}</a>
        <div class="search">
          ${icon('search')}
          <input
            type="search"
            .value=${this.query}
            placeholder=${t('sessions.search')}
            aria-label=${t('sessions.search')}
            @input=${this.#typed}
            @keydown=${(event) => event.key === 'Escape' && this.#clear()}
          />
        </div>
      </div>
      <div class="sessions">${this.query.trim() ? this.#found() : this.#all()}</div>
      ${this.#foot()}
    </nav>`;
  }

  #all() {
    if (store.sessions === null) return html`<p class="side-empty" role="status">${t('common.loading')}</p>`;
    const archived = store.sessions.filter((session) => session.archived);
    const present = store.sessions.filter((session) => !session.archived);
    const shown = present.filter(({ group }) => group !== 'commands');
    return html`${shown.length ? this.#list(shown) : html`<p class="side-empty">${t('sessions.none')}</p>`}
    ${this.#folded('commands', 'terminal', present.filter(({ group }) => group === 'commands'))}
    ${this.#folded('archived', 'archive', archived)}`;
  }

  #folded(name, image, sessions) {
    if (!sessions.length) return nothing;
    const isOpen = this.unfolded.has(name);
    return html`<button type="button" class="fold-toggle" aria-expanded=${isOpen} @click=${() => this.#fold(name)}>
        ${icon(image)}${t(`sessions.${name}`, { n: sessions.length })}${icon('chevron')}
      </button>
      ${isOpen ? this.#list(sessions) : nothing}`;
  }

  #fold(name) {
    const open = new Set(this.unfolded);
    if (!open.delete(name)) open.add(name);
    this.unfolded = open;
  }

  #list(sessions) {
    return html`<ul>
      ${repeat(
        sessions,
        (session) => session.id,
        (session) => this.#session(session),
      )}
    </ul>`;
  }

  #session(session, { snippet = '', seq = null } = {}) {
    const view = session.kind === 'run' ? 'runs' : 'chat';
    const isHere = this.route.name === view && this.route.parts[0] === session.id;
    if (this.renaming === session.id) return html`<li class="session">${this.#renameField(session)}</li>`;
    return html`<li class="session ${isHere ? 'here' : ''}">
      <a href="#/${view}/${session.id}${seq ? `/${seq}` : ''}" aria-current=${isHere ? 'page' : nothing} @click=${() => this.#leave()}>
        <span class="session-title clip" dir="auto">${sessionTitle(session)}</span>
        <span class="session-about clip" title=${formatMoment(session.updated_us)}>
          ${snippet || html`${workOf(session)}${session.mode} · ${formatTime(session.updated_us)}`}
        </span>
      </a>
      <il-menu
        label=${t('sessions.menu', { title: sessionTitle(session) })}
        .items=${sessionMenuItems(session, () => this.#rename(session.id))}
      ></il-menu>
    </li>`;
  }

  #renameField(session) {
    const done = async (event) => {
      const title = event.target.value.trim();
      this.renaming = '';
      if (!title || title === session.title) return;
      try {
        store.put((await api.request('session.rename', { session_id: session.id, title })).session);
      } catch {
        store.refresh();
      }
    };
    const key = (event) => {
      if (event.isComposing) return;
      if (event.key === 'Enter') event.target.blur();
      if (event.key !== 'Escape') return;
      event.target.value = session.title;
      event.target.blur();
    };
    return html`<input
      class="rename"
      type="text"
      maxlength="200"
      .value=${session.title}
      aria-label=${t('sessions.rename')}
      @blur=${done}
      @keydown=${key}
    />`;
  }

  async #rename(id) {
    this.renaming = id;
    await this.updateComplete;
    const field = /** @type {HTMLInputElement} */ (this.querySelector('.rename'));
    field?.focus();
    field?.select();
  }

  // -- searching --

  #typed(event) {
    this.query = event.target.value;
    clearTimeout(this.#timer);
    const query = this.query.trim();
    if (!query) this.hits = null;
    else this.#timer = setTimeout(() => this.#search(query), TYPING_MS);
  }

  #clear() {
    this.query = '';
    this.hits = null;
  }

  async #search(query) {
    try {
      const { matches } = await api.request('session.search', { query: query.slice(0, 200), limit: 100 });
      if (query === this.query.trim()) this.hits = onePerSession(matches);
    } catch (error) {
      this.hits = { error };
    }
  }

  #found() {
    if (this.hits === null) return html`<p class="side-empty" role="status">${t('sessions.searching')}</p>`;
    if (this.hits.error) return html`<p class="side-empty" role="alert">${t('common.error', { message: this.hits.error.message })}</p>`;
    if (!this.hits.length) return html`<p class="side-empty" role="status">${t('sessions.not_found', { query: this.query.trim() })}</p>`;
    return html`<p class="sr-only" role="status">${t('sessions.found', { n: this.hits.length })}</p>
      <ul>${this.hits.map((match) => this.#session(match.session, match))}</ul>`;
  }

  // -- the foot --

  #foot() {
    const shown = this.state === 'open' ? 'open' : 'closed';
    const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
    const other = language() === 'zh' ? 'en' : 'zh';
    return html`<div class="side-foot">
      <span class="connection ${shown}" title=${api.info ? `${api.info.who} · Interlock ${api.info.version}` : ''}>
        <span class="lamp" aria-hidden="true"></span>
        <span class="clip">${t(`shell.state.${this.state}`)}</span>
      </span>
      <button type="button" class="icon-btn" title=${t(`theme.${theme()}`)} aria-label=${t('theme.label', { now: t(`theme.${theme()}`), next: t(`theme.${next}`) })} @click=${() => this.#theme(next)}>
        ${icon(THEME_ICONS[theme()])}
      </button>
      <button type="button" class="btn tiny ghost language" lang=${other === 'zh' ? 'zh-CN' : 'en'} title=${LANGUAGES[other]} @click=${() => setLanguage(other)}>${LANGUAGES[other]}</button>
      <button type="button" class="icon-btn" title=${t('shell.logout')} aria-label=${t('shell.logout')} @click=${leave}>${icon('logout')}</button>
    </div>`;
  }

  #theme(name) {
    setTheme(name);
    this.requestUpdate();
  }

  #leave() {
    this.dispatchEvent(new CustomEvent('leave'));
  }
}

/** Sessions that wait for an answer come first, so that they are visible from every other one. */
function workOf({ work }) {
  return work ? html`<span class="session-work ${work}">${t(`sessions.work.${work}`)}</span> · ` : nothing;
}

/** What was said in a session rather than what it is called, which is shown anyway. */
function onePerSession(matches) {
  const found = new Map();
  for (const match of matches) {
    const known = found.get(match.session.id);
    if (!known || (known.seq === null && match.seq !== null)) found.set(match.session.id, match);
  }
  return [...found.values()];
}

customElements.define('il-sidebar', Sidebar);
