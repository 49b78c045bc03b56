/** ActivityView: what was done, by whom, how long it took, and the proof. #/activity[/SESSION[/TASK]] */
import { html, nothing } from 'lit';
import { api } from './api.js';
import { PageElement } from './page-element.js';
import { formatDuration, formatNumber, t } from './i18n.js';
import { short } from './views/event-text.js';
import { debounced, empty, icon, loading, problem, time } from './views/components.js';
import { flat, timelineRows, sumOfCosts } from './views/timeline-rows.js';
import { cost } from './views/timeline.js';
import './dashboard.js';
import './views/event-details.js';
import './views/log-verification.js';
import './views/recent-tasks.js';
import './views/system-events.js';

const MANY = 200;
const TREE = 2000;
const MOST = 5000;
const SYSTEM = 'system';
const WHOLE = 'all';
const UNDER_WAY = new Set(['queued', 'running', 'waiting']);

class ActivityView extends PageElement {
  static properties = {
    route: { attribute: false },
    sessions: { state: true },
    tasks: { state: true },
    said: { state: true },
    roots: { state: true },
    hasMore: { state: true },
    limit: { state: true },
    failed: { state: true },
    chosen: { state: true },
    now: { state: true },
  };

  #refresh = debounced(() => this.#load(), 300);
  #number = 0;
  #clock = 0;
  #followed = '';

  constructor() {
    super();
    this.route = [];
    this.limit = TREE;
    this.said = new Map();
  }

  get sessionId() {
    return this.route?.[0] ?? '';
  }

  get taskId() {
    return this.route?.[1] ?? '';
  }

  get isSystem() {
    return this.sessionId === SYSTEM;
  }

  /** The task that is shown: the one of the address, else the newest. */
  get task() {
    if (this.taskId === WHOLE) return null;
    return this.tasks?.find(({ id }) => !this.taskId || id === this.taskId) ?? null;
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(api.onState((state) => state === 'open' && this.#load()));
    this.until(api.onFrame((frame) => this.#frame(frame)));
    this.until(() => this.#refresh.cancel());
    this.until(() => this.#unfollow());
    this.#clock = setInterval(() => this.#isLive() && (this.now = Date.now() * 1000), 1000);
    this.until(() => clearInterval(this.#clock));
    if (api.state !== 'open') this.#load();
  }

  willUpdate(changed) {
    if (changed.has('route') && this.hasUpdated) {
      if (this.#followed !== this.sessionId) this.#unfollow();
      this.tasks = this.sessionId === this.tasks?.[0]?.session_id ? this.tasks : null;
      this.roots = this.chosen = this.failed = null;
      this.limit = TREE;
      this.#load();
    }
  }

  #frame({ type, session_id: id, seq, data }) {
    if (!id || id !== this.sessionId) return;
    if (seq || data?.done || type === 'error' || type === 'ask_user') this.#refresh();
  }

  #isLive() {
    return UNDER_WAY.has(this.task?.status) || (this.taskId === WHOLE && this.tasks?.some(({ status }) => UNDER_WAY.has(status)));
  }

  async #load() {
    const number = ++this.#number;
    const { sessionId } = this;
    try {
      const listed = await api.request('session.list', { group: 'all', limit: MANY, archived: true });
      if (number !== this.#number) return;
      this.sessions = listed.sessions;
      if (!sessionId || this.isSystem) {
        this.failed = null;
        return;
      }
      const { tasks } = await api.request('tasks.list', { session_id: sessionId, limit: MANY });
      if (number !== this.#number) return;
      this.tasks = tasks;
      const { task } = this;
      const wanted = task ? { task_id: task.id } : { session_id: sessionId };
      const tree = await api.request('events.tree', { ...wanted, limit: this.limit });
      if (number !== this.#number) return;
      this.now = Date.now() * 1000;
      this.roots = tree.roots;
      this.hasMore = tree.has_more;
      this.failed = null;
      this.#follow(sessionId);
      this.#read(sessionId, tasks);
    } catch (error) {
      if (number === this.#number) this.failed = error;
    }
  }

  /** Frames of this session are what makes the timeline live. */
  #follow(sessionId) {
    if (!this.isConnected || api.lastSeq(sessionId) || this.#followed === sessionId) return;
    const last = this.sessions?.find(({ id }) => id === sessionId)?.last_seq;
    if (!last) return;
    this.#followed = sessionId;
    api.request('session.subscribe', { session_id: sessionId, after_seq: last }).catch(() => {
      if (this.#followed === sessionId) this.#followed = '';
    });
  }

  /** A socket follows so many sessions and no more. */
  #unfollow() {
    const sessionId = this.#followed;
    this.#followed = '';
    if (sessionId) api.request('session.unsubscribe', { session_id: sessionId }).catch(() => {});
  }

  /** What the tasks are about: the messages they came from. */
  async #read(sessionId, tasks) {
    const wanted = tasks.filter(({ id }) => !this.said.has(id));
    if (!wanted.length) return;
    const first = Math.min(...wanted.map(({ message_seq: seq }) => seq));
    try {
      const { messages } = await api.request('chat.history', { session_id: sessionId, after_seq: Math.max(0, first - 1), limit: 1000 });
      const bySeq = new Map(messages.map((message) => [message.seq, message.content]));
      const said = new Map(this.said);
      for (const { id, message_seq: seq } of wanted) said.set(id, bySeq.get(seq) ?? '');
      this.said = said;
    } catch {
      // The ids do as well.
    }
  }

  #choose(event) {
    this.chosen = event.detail;
    this.updateComplete.then(() => this.querySelector('il-event-details')?.focusHeading());
  }

  #close() {
    const { id } = this.chosen;
    this.chosen = null;
    (this.querySelector('il-timeline') ?? this.querySelector('il-system-list'))?.focusRow(id);
  }

  #more() {
    this.limit = MOST;
    this.#load();
  }

  render() {
    return html`<div class="view v-view v-activity">
      <header class="view-head">
        <div class="grow">
          <h1>${t('activity.title')}</h1>
          <p class="muted">${t('activity.intro')}</p>
        </div>
      </header>
      <div class="v-toolbar">
        ${this.#choices()}
        <il-proof .sessionId=${this.isSystem ? '' : this.sessionId}></il-proof>
      </div>
      ${this.failed ? problem(this.failed, () => this.#load()) : nothing}
      ${this.sessionId ? this.#stream() : html`<il-dashboard></il-dashboard><il-recent .sessions=${this.sessions ?? []}></il-recent>`}
    </div>`;
  }

  #choices() {
    const known = this.sessions?.some(({ id }) => id === this.sessionId);
    return html`<div class="v-choices">
      <div class="field">
        <label for="activity-session">${t('activity.session')}</label>
        <select id="activity-session" @change=${(event) => go(event.target.value)}>
          <option value="" .selected=${!this.sessionId}>${t('activity.overview')}</option>
          <option value=${SYSTEM} .selected=${this.isSystem}>${t('activity.system')}</option>
          ${this.sessionId && !this.isSystem && !known ? html`<option value=${this.sessionId} .selected=${true}>${this.sessionId}</option>` : nothing}
          <optgroup label=${t('activity.sessions')}>
            ${(this.sessions ?? []).map((session) => html`<option value=${session.id}
              .selected=${session.id === this.sessionId}>${short(session.title || session.id, 60)}</option>`)}
          </optgroup>
        </select>
      </div>
      ${this.tasks?.length && this.sessionId && !this.isSystem ? html`<div class="field">
        <label for="activity-task">${t('activity.task')}</label>
        <select id="activity-task" @change=${(event) => go(this.sessionId, event.target.value)}>
          ${this.tasks.map((task) => html`<option value=${task.id} .selected=${task === this.task}>${this.#taskName(task)}</option>`)}
          <option value=${WHOLE} .selected=${this.taskId === WHOLE}>${t('activity.whole')}</option>
        </select>
      </div>` : nothing}
    </div>`;
  }

  #taskName(task) {
    const said = short(this.said.get(task.id) ?? '', 48) || task.id;
    return `${said} · ${t(`activity.status.${task.status}`)}`;
  }

  #stream() {
    const details = this.chosen
      ? html`<il-event-details .row=${this.#current()} .sessionId=${this.isSystem ? '' : this.sessionId}
          @close=${this.#close}></il-event-details>` : nothing;
    const id = this.chosen?.id ?? '';
    return html`<div class="v-stream ${this.chosen ? 'has-details' : ''}">
      <div class="v-stream-main">${this.isSystem
        ? html`<h2>${t('activity.system')}</h2><p class="hint">${t('activity.system_hint')}</p>
          <il-system-list .chosen=${id} @choose=${this.#choose}></il-system-list>`
        : this.roots ? this.#tree(id) : this.failed ? nothing : loading()}</div>
      ${details}
    </div>`;
  }

  #rows() {
    return timelineRows(this.roots, Boolean(this.#isLive()), this.now);
  }

  /** The chosen row as it stands after a refresh. */
  #current() {
    if (!this.roots) return this.chosen;
    return flat(this.#rows()).find(({ id }) => id === this.chosen.id) ?? this.chosen;
  }

  #tree(chosen) {
    if (!this.roots.some(({ kind }) => !kind.startsWith('session.'))) {
      return empty(t('activity.empty'), t('activity.empty_text'),
        html`<p><a class="btn" href="#/chat/${this.sessionId}">${t('activity.open_chat')}</a></p>`);
    }
    const rows = this.#rows();
    return html`
      ${this.#summary(rows)}
      ${this.hasMore ? html`<p class="notice">${icon('info')}
        <span class="grow">${t('activity.has_more', { n: formatNumber(this.limit) })}</span>
        ${this.limit < MOST ? html`<button type="button" class="btn tiny" @click=${this.#more}>
          ${t('activity.load_more')}</button>` : nothing}</p>` : nothing}
      <il-timeline .rows=${rows} .said=${this.said} .chosen=${chosen} @choose=${this.#choose}></il-timeline>`;
  }

  #summary(rows) {
    const { task } = this;
    const all = flat(rows);
    const number = (category) => all.filter((row) => row.category === category).length;
    const used = (which) => formatNumber(rows.reduce((sum, { tokens }) => sum + (tokens?.[which] ?? 0), 0));
    const costs = rows.map((row) => row.cost).filter(Boolean);
    const took = task ? ((task.ended_us ?? this.now) - (task.started_us ?? task.created_us)) / 1000 : null;
    const text = task && this.said.get(task.id);
    return html`<section class="v-summary" aria-label=${t('activity.summary')}>
      ${text ? html`<p class="v-said-text"><a href="#/chat/${this.sessionId}" title=${t('activity.open_chat')}
        >${short(text, 220)}</a></p>` : nothing}
      <dl class="v-stats">
        ${task ? html`<div><dt>${t('activity.status')}</dt>
            <dd><span class="badge ${badge(task.status)}">${t(`activity.status.${task.status}`)}</span></dd></div>
          <div><dt>${t('explain.mode')}</dt><dd><code>${task.mode ?? '–'}</code></dd></div>
          <div><dt>${t('activity.begun')}</dt><dd>${time(task.created_us)}</dd></div>
          <div><dt>${t('activity.duration')}</dt><dd>${formatDuration(took)}</dd></div>` : nothing}
        <div><dt>${t('dash.turns')}</dt><dd>${formatNumber(number('turn'))}</dd></div>
        <div><dt>${t('dash.calls')}</dt><dd>${formatNumber(number('call') + number('question'))}</dd></div>
        <div class=${number('denied') ? 'is-denied' : ''}><dt>${t('dash.denials')}</dt><dd>${formatNumber(number('denied'))}</dd></div>
        <div><dt>${t('activity.tokens_in_out')}</dt><dd>${used('input')} + ${used('output')}</dd></div>
        ${costs.length ? html`<div><dt>${t('activity.cost')}</dt>
          <dd>${cost(sumOfCosts(costs))}</dd></div>` : nothing}
      </dl>
      ${task?.reason ? html`<p class="notice ${task.status === 'failed' ? 'error' : ''}">${icon('info')}<span>${task.reason}</span></p>` : nothing}
    </section>`;
  }
}

export function badge(status) {
  return { done: 'ok', failed: 'error', waiting: 'warn', running: 'info', queued: 'info' }[status] ?? '';
}

function go(...parts) {
  location.hash = `#/${['activity', ...parts].filter(Boolean).map(encodeURIComponent).join('/')}`;
}

customElements.define('il-activity', ActivityView);
