/** AuthorityView: which tool may be used in which mode, who decided it, and the judgement of one call. */
import { html, nothing } from 'lit';
import { api } from './api.js';
import { PageElement } from './page-element.js';
import { t } from './i18n.js';
import { loading, problem } from './views/components.js';
import './views/policy-matrix.js';
import './views/explain-call.js';

const MANY = 200;

class AuthorityView extends PageElement {
  static properties = {
    route: { attribute: false },
    matrix: { state: true },
    sessions: { state: true },
    sessionId: { state: true },
    failed: { state: true },
    asked: { state: true },
  };

  #number = 0;

  constructor() {
    super();
    this.route = [];
    this.sessions = [];
    this.sessionId = '';
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(api.onState((state) => state === 'open' && this.#load()));
    this.until(api.onFrame(({ data }) => data?.kind === 'settings.changed' && this.#load()));
    const shown = () => document.visibilityState === 'visible' && this.#load();
    document.addEventListener('visibilitychange', shown);
    this.until(() => document.removeEventListener('visibilitychange', shown));
    if (api.state !== 'open') this.#load();
  }

  willUpdate(changed) {
    if (changed.has('route') && this.tool) this.asked = { tool: this.tool };
  }

  get tool() {
    return this.route?.[0] ?? '';
  }

  async #load() {
    const number = ++this.#number;
    try {
      const [matrix, listed] = await Promise.all([
        api.request('policy.matrix', this.sessionId ? { session_id: this.sessionId } : {}),
        api.request('session.list', { limit: MANY }).catch(() => ({ sessions: this.sessions })),
      ]);
      if (number !== this.#number) return;
      this.matrix = matrix;
      this.sessions = listed.sessions;
      this.failed = null;
    } catch (error) {
      if (number === this.#number) this.failed = error;
    }
  }

  async #explain(event) {
    this.asked = event.detail;
    await this.updateComplete;
    const page = this.closest('.view-scroll');
    const far = this.querySelector('il-explain').getBoundingClientRect().top - innerHeight;
    if (page && far > -160) page.scrollBy({ top: far + innerHeight * 0.7, behavior: 'smooth' });
  }

  #choose(event) {
    this.sessionId = event.target.value;
    this.#load();
  }

  render() {
    return html`<div class="view v-view v-authority">
      <header class="view-head">
        <div class="grow">
          <h1>${t('authority.title')}</h1>
          <p class="muted">${t('authority.intro')}</p>
        </div>
        ${this.#sessionChoice()}
      </header>
      ${this.failed ? problem(this.failed, () => this.#load()) : nothing}
      ${this.matrix ? this.#body() : this.failed ? nothing : loading()}
    </div>`;
  }

  #sessionChoice() {
    return html`<div class="field v-choice">
      <label for="authority-session">${t('authority.for')}</label>
      <select id="authority-session" @change=${this.#choose}>
        <option value="" .selected=${!this.sessionId}>${t('authority.any_session')}</option>
        ${this.sessions.map((session) => html`<option value=${session.id} .selected=${session.id === this.sessionId}>
          ${session.title || session.id}${session.agent ? ` · ${session.agent}` : ''} · ${session.mode ?? session.stored_mode}
        </option>`)}
      </select>
    </div>`;
  }

  #body() {
    const session = this.sessions.find(({ id }) => id === this.sessionId);
    return html`
      ${session ? html`<p class="notice v-gap">${session.agent
        ? t('authority.of_agent', { agent: session.agent, mode: session.mode })
        : t('authority.of_session', { mode: session.mode })}</p>` : nothing}
      <div class="v-two">
        <il-matrix .matrix=${this.matrix} .marked=${this.tool} .mode=${session?.mode ?? ''}
          @cell=${this.#explain}></il-matrix>
        <il-explain class="card" .matrix=${this.matrix} .asked=${this.asked} .sessionId=${this.sessionId}></il-explain>
      </div>`;
  }
}

customElements.define('il-authority', AuthorityView);
