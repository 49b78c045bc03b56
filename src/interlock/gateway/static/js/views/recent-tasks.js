/** The newest tasks of all sessions, each a way into its timeline. */
import { html, nothing } from 'lit';
import { api } from '../api.js';
import { PageElement } from '../page-element.js';
import { formatDuration, t } from '../i18n.js';
import { debounced, empty, loading, problem, time } from './components.js';

const NEWEST = 20;
const BADGE = { done: 'ok', failed: 'error', waiting: 'warn', running: 'info', queued: 'info' };

class RecentTasks extends PageElement {
  static properties = {
    sessions: { attribute: false },
    tasks: { state: true },
    failed: { state: true },
  };

  constructor() {
    super();
    /** @type {any[]} */
    this.sessions = undefined;
  }

  #refresh = debounced(() => this.#load(), 1000);

  connectedCallback() {
    super.connectedCallback();
    this.until(api.onState((state) => state === 'open' && this.#load()));
    this.until(api.onFrame((frame) => frame.type === 'session_changed' && this.#refresh()));
    this.until(() => this.#refresh.cancel());
  }

  async #load() {
    try {
      this.tasks = (await api.request('tasks.list', { limit: NEWEST })).tasks;
      this.failed = null;
    } catch (error) {
      this.failed = error;
    }
  }

  render() {
    return html`<section class="v-recent" aria-labelledby="recent-title">
      <h2 id="recent-title">${t('activity.recent')}</h2>
      ${this.failed ? problem(this.failed, () => this.#load()) : !this.tasks ? loading()
        : this.tasks.length ? this.#list() : empty(t('activity.no_tasks'), t('activity.no_tasks_text'))}
    </section>`;
  }

  #list() {
    const titles = new Map((this.sessions ?? []).map((session) => [session.id, session.title]));
    return html`<ul class="v-tasks">${this.tasks.map((task) => html`<li>
      <a href="#/activity/${task.session_id}/${task.id}">
        <span class="badge ${BADGE[task.status] ?? ''}">${t(`activity.status.${task.status}`)}</span>
        <span class="grow clip" title=${titles.get(task.session_id) ?? ''}>${nameOf(task, titles)}</span>
        <code class="small muted v-task-mode">${task.mode ?? ''}</code>
        <span class="small muted v-task-took">${task.ended_us && task.started_us
          ? formatDuration((task.ended_us - task.started_us) / 1000) : nothing}</span>
        <span class="small muted v-task-time">${time(task.created_us)}</span>
      </a></li>`)}</ul>`;
  }
}

/** What was asked; where that is not known, the session it was asked in. */
function nameOf({ message, session_id: id }, titles) {
  return message || titles.get(id) || t('activity.untitled', { id: id.slice(0, 8) });
}

customElements.define('il-recent', RecentTasks);
