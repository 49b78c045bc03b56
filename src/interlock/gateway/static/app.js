/** Starts the page: theme, entry by a code, routes by the address's hash, and the frame around every view. */
import { html, nothing, plain } from 'lit';
import { api } from './js/api.js';
import { PageElement } from './js/page-element.js';
import { icon, logo } from './js/icons.js';
import { store } from './js/session-store.js';
import { t } from './js/i18n.js';
import { applyTheme } from './js/theme.js';
import { enter, loginPage } from './js/shell/login.js';
import { navEntryOf } from './js/shell/sidebar.js';
import './js/chat/chat-view.js';

/** Views that are fetched when they are first wanted. */
const VIEWS = {
  settings: () => import('./js/settings.js'),
  authority: () => import('./js/authority.js'),
  activity: () => import('./js/activity.js'),
  workflows: () => import('./js/workflows.js'),
  runs: () => import('./js/workflow-run.js'),
  servers: () => import('./js/mcp-servers.js'),
};

function readRoute() {
  const [name, ...parts] = location.hash.replace(/^#\/?/, '').split('/').map(decoded);
  return name in VIEWS || name === 'chat' ? { name, parts } : { name: 'chat', parts: [] };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

class App extends PageElement {
  static properties = {
    route: { state: true },
    state: { state: true },
    entry: { state: true },
    drawer: { state: true },
    slow: { state: true },
    ready: { state: true },
    problem: { state: true },
  };

  #slowTimer = 0;

  constructor() {
    super();
    this.route = readRoute();
    this.state = 'connecting';
    this.drawer = false;
    this.ready = {};
  }

  connectedCallback() {
    super.connectedCallback();
    const moved = () => this.#moved();
    addEventListener('hashchange', moved);
    this.until(() => removeEventListener('hashchange', moved));
    const escape = (event) => event.key === 'Escape' && this.drawer && this.#toggleDrawer();
    addEventListener('keydown', escape);
    this.until(() => removeEventListener('keydown', escape));
    this.until(api.onState((state) => this.#connection(state)));
    this.until(store.onChange(() => this.requestUpdate()));
    this.#start();
  }

  async #start() {
    this.entry = await enter();
    this.route = readRoute();
    this.#fetchView();
    api.connect();
  }

  async #moved() {
    if (location.hash.startsWith('#code=')) {
      await this.#start();
      return;
    }
    this.route = readRoute();
    this.drawer = false;
    this.#fetchView();
  }

  async #fetchView() {
    const { name } = this.route;
    if (!(name in VIEWS) || this.ready[name]) return;
    try {
      await VIEWS[name]();
      this.problem = null;
      this.ready = { ...this.ready, [name]: true };
    } catch (error) {
      this.problem = error;
    }
  }

  /** A short break is not worth a word. */
  #connection(state) {
    this.state = state;
    clearTimeout(this.#slowTimer);
    if (state === 'open' || state === 'login') this.slow = false;
    else this.#slowTimer = setTimeout(() => (this.slow = true), 700);
  }

  updated() {
    const { name, parts } = this.route;
    const title = name === 'chat' ? store.session(parts[0])?.title : t(`nav.${navEntryOf(name)}`);
    const waiting = this.state !== 'login' && store.waiting ? `(${store.waiting}) ` : '';
    document.title = waiting + (title ? `${plain(title)} · Interlock` : 'Interlock');
  }

  render() {
    if (this.state === 'login') return loginPage(this.entry);
    return html`<a class="skip" href="#main" @click=${this.#skip}>${t('shell.skip')}</a>
      <div class="app ${this.drawer ? 'with-drawer' : ''}">
        <il-sidebar
          .route=${this.route}
          .state=${this.state}
          id="sidebar"
          @leave=${() => (this.drawer = false)}
        ></il-sidebar>
        <div class="drawer-shade" @click=${() => (this.drawer = false)}></div>
        <main id="main" tabindex="-1" class="main-${this.route.name}">${this.#banner()} ${this.#view()}</main>
      </div>`;
  }

  /** The focus goes where the eyes go. */
  async #toggleDrawer() {
    this.drawer = !this.drawer;
    await this.updateComplete;
    const target = /** @type {HTMLElement} */ (this.querySelector(this.drawer ? '.side .brand' : '.drawer-button'));
    target?.focus();
  }

  #skip(event) {
    event.preventDefault();
    const main = /** @type {HTMLElement} */ (this.querySelector('#main'));
    main.focus();
  }

  #banner() {
    if (!this.slow) return nothing;
    return html`<div class="connection-banner" role="status">
      <span class="spinner" aria-hidden="true"></span>
      <span class="grow">${t(api.info ? 'shell.reconnecting' : 'shell.connecting')}</span>
      ${this.state === 'closed'
        ? html`<button type="button" class="btn tiny" @click=${() => api.connect()}>${t('shell.now')}</button>`
        : nothing}
    </div>`;
  }

  #menuButton() {
    return html`<button
      type="button"
      class="icon-btn drawer-button"
      aria-label=${t('shell.menu')}
      aria-expanded=${this.drawer}
      aria-controls="sidebar"
      @click=${() => this.#toggleDrawer()}
    >
      ${icon('menu')}
    </button>`;
  }

  #view() {
    const { name, parts } = this.route;
    if (name === 'chat') return html`<il-chat .sessionId=${parts[0] ?? ''} .seq=${Number(parts[1]) || 0} .menuButton=${this.#menuButton()}></il-chat>`;
    return html`<div class="phone-head">${this.#menuButton()}${logo()}<strong>${t(`nav.${navEntryOf(name)}`)}</strong></div>
      <div class="view-scroll">${this.#lazyView(name, parts)}</div>`;
  }

  #lazyView(name, parts) {
    if (this.problem) {
      return html`<div class="view"><div class="notice error" role="alert">
        ${icon('error')}<p>${t('shell.not_loaded')} <button class="link-btn" @click=${() => location.reload()}>${t('shell.reload')}</button></p>
      </div></div>`;
    }
    if (!this.ready[name]) return html`<div class="empty" role="status"><span class="spinner"></span> ${t('common.loading')}</div>`;
    if (name === 'settings') return html`<il-settings .route=${parts}></il-settings>`;
    if (name === 'authority') return html`<il-authority .route=${parts}></il-authority>`;
    if (name === 'workflows') return html`<il-workflows .route=${parts}></il-workflows>`;
    if (name === 'runs') return html`<il-run .route=${parts}></il-run>`;
    if (name === 'servers') return html`<il-servers .route=${parts}></il-servers>`;
    return html`<il-activity .route=${parts}></il-activity>`;
  }
}

applyTheme();
customElements.define('il-app', App);
