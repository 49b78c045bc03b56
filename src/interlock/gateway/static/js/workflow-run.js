/** One run of a workflow: where it stands, what it waits for, and what a person can do with it. #/runs/ID */
import { html, nothing } from 'lit';
import { api } from './api.js';
import { PageElement } from './page-element.js';
import { ChatSession } from './chat/chat-session.js';
import { tasksOf } from './chat/reducer.js';
import { confirmed, showError } from './dialog.js';
import { graphView, nodeList, nodeTitle } from './runs/graph-view.js';
import { RUN_BADGES } from './runs/run-list.js';
import { currentVisit, graphFrames, nodeStates, possible, edgeCounter } from './runs/node-states.js';
import { visitList } from './runs/visit-list.js';
import { announce } from './session-store.js';
import { formatDuration, formatNumber, t } from './i18n.js';
import { debounced, icon, loading, problem, time } from './views/components.js';
import './chat/question-view.js';

const ICONS = { pause: 'pause', resume: 'play', retry: 'retry', stop: 'stop' };
const TICK_MS = 1000;

class WorkflowRunView extends PageElement {
  static properties = {
    route: { attribute: false },
    shown: { state: true },
    failed: { state: true },
    frame: { state: true },
    opened: { state: true },
    busy: { state: true },
    now: { state: true },
  };

  /** @type {ChatSession|null} */
  #session = null;
  #seen = -1;
  #number = 0;
  #told = '';
  #refresh = debounced(() => this.#load(), 120, 500);

  constructor() {
    super();
    this.route = [];
    this.opened = new Set();
    this.frame = null;
  }

  get runId() {
    return this.route?.[0] ?? '';
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(api.onState((state) => state === 'open' && this.#load()));
    this.until(() => this.#leave());
    this.until(() => this.#refresh.cancel());
    const clock = setInterval(() => this.shown?.run.status === 'running' && (this.now = Date.now()), TICK_MS);
    this.until(() => clearInterval(clock));
  }

  willUpdate(changed) {
    if (!changed.has('route') || this.#session?.id === this.runId) return;
    this.#leave();
    this.shown = this.failed = this.frame = null;
    this.opened = new Set();
    this.#seen = -1;
    this.#told = '';
    if (!this.runId) return;
    // Its frames are those of its session: they say when to look again, and what its steps do.
    this.#session = new ChatSession(this.runId, () => this.#changed(), () => {});
    if (this.hasUpdated) this.#load();
  }

  #leave() {
    this.#session?.close();
    this.#session = null;
  }

  #changed() {
    const { lastSeq } = this.#session?.state ?? {};
    if (lastSeq !== undefined && lastSeq !== this.#seen) {
      this.#seen = lastSeq;
      this.#refresh();
    }
    this.requestUpdate();
  }

  async #load() {
    const { runId } = this;
    const number = ++this.#number;
    try {
      const shown = await api.request('runs.get', { run_id: runId });
      if (number !== this.#number || runId !== this.runId) return;
      this.shown = shown;
      this.failed = null;
      this.#tell(shown);
    } catch (error) {
      if (number === this.#number && error.code !== 'DISCONNECTED') this.failed = error;
    }
  }

  /** Announces the run's position to screen readers, once for each position. */
  #tell(shown) {
    const at = currentVisit(shown);
    const words = at
      ? `${nodeTitle(shown.workflows[shown.run.workflow], at.node)}: ${t(`runs.node.${shown.is_waiting ? 'waiting' : at.status === 'active' ? 'running' : at.status === 'ready' ? 'ready' : 'failed'}`)}`
      : `${shown.run.workflow}: ${t(`runs.status.${shown.run.status}`)}`;
    if (this.#told && words !== this.#told) announce(words);
    this.#told = words;
  }

  async #do(what) {
    if (what === 'stop' && !(await this.#meansStop())) return;
    this.busy = what;
    try {
      const { run } = await api.request(`runs.${what}`, { run_id: this.runId });
      this.shown = { ...this.shown, run };
      await this.#load();
    } catch (error) {
      showError(error);
    }
    this.busy = '';
  }

  #meansStop() {
    return confirmed({
      title: t('runs.stop_title'),
      text: html`<p>${t('runs.stop_text')}</p>`,
      confirm: t('runs.do.stop'),
      danger: true,
    });
  }

  render() {
    return html`<div class="view v-view r-run">
      ${this.shown ? this.#page() : this.failed ? this.#missing() : loading()}
    </div>`;
  }

  #missing() {
    return html`<header class="view-head"><div class="grow"><h1>${t('runs.title')}</h1></div></header>
      ${problem(this.failed, () => this.#load())}
      <p class="v-gap"><a class="btn" href="#/workflows">${t('runs.to_all')}</a></p>`;
  }

  #page() {
    const { run } = this.shown;
    const frames = graphFrames(this.shown);
    return html`<header class="view-head r-head">
        <div class="grow">
          <p class="small"><a href="#/workflows">${t('runs.title')}</a> / <a href="#/workflows/${run.workflow}">${run.workflow}</a></p>
          <h1>${run.workflow} <span class="badge ${RUN_BADGES[run.status] ?? ''}" data-run-status=${run.status}>${this.#status()}</span></h1>
        </div>
        ${this.#buttons()}
      </header>
      ${run.input ? html`<p class="r-input">${run.input}</p>` : nothing}
      ${this.#facts()}
      ${this.failed ? problem(this.failed, () => this.#load()) : nothing}
      ${this.#notice()} ${this.#question()}
      <div class="r-columns">
        <div class="r-side">${this.#graph(frames)}</div>
        <div class="r-main">
          <section aria-labelledby="run-visits"><h2 id="run-visits">${t('runs.visits')}</h2>
            ${visitList(this.shown, this.#context(frames))}</section>
        </div>
      </div>`;
  }

  #status() {
    const { run, is_waiting: waits } = this.shown;
    return t(waits && run.status === 'running' ? 'runs.status.waits' : `runs.status.${run.status}`);
  }

  #buttons() {
    const can = possible(this.shown);
    return html`<div class="row wrap r-buttons" role="group" aria-label=${t('runs.steer')}>
      ${Object.keys(ICONS).filter((what) => can[what]).map((what) => html`<button type="button"
        class="btn ${what === 'stop' ? 'danger' : what === 'pause' ? '' : 'primary'}" ?disabled=${Boolean(this.busy)}
        @click=${() => this.#do(what)}>${icon(ICONS[what])}${t(`runs.do.${what}`)}</button>`)}
      ${can.stop ? nothing : html`<a class="btn" href="#/workflows/${this.shown.run.workflow}">${icon('retry')}${t('runs.again')}</a>`}
    </div>`;
  }

  #facts() {
    const { run, steps } = this.shown;
    const took = ((run.ended_us ?? Math.max(this.now ?? 0, Date.now()) * 1000) - run.created_us) / 1000;
    return html`<dl class="v-stats r-facts">
      <div><dt>${t('explain.mode')}</dt><dd><code>${run.mode}</code></dd></div>
      <div><dt>${t('runs.steps')}</dt><dd>${formatNumber(steps)}</dd></div>
      <div><dt>${t('activity.begun')}</dt><dd>${time(run.created_us)}</dd></div>
      ${run.ended_us || run.status === 'running' ? html`<div><dt>${t('activity.duration')}</dt><dd>${formatDuration(took)}</dd></div>` : nothing}
      <div><dt>${t('runs.by')}</dt><dd>${run.started_by}</dd></div>
      <div><dt>${t('activity.timeline')}</dt><dd><a href="#/activity/${run.run_id}/all">${t('runs.timeline')}</a></dd></div>
    </dl>`;
  }

  /** What the state means, and what to do about it. */
  #notice() {
    const { run } = this.shown;
    const words = (kind, name, text) => html`<div class="notice ${kind}" role="status">${icon(name)}<p>${text}</p></div>`;
    if (run.status === 'done') return words('ok', 'check', html`<strong>${t('runs.is_done')}</strong> ${t('runs.outcome')} <code>${run.outcome}</code>`);
    if (run.status === 'failed') return words('error', 'error', html`<strong>${t('runs.is_failed')}</strong> ${run.reason}`);
    if (run.status === 'stopped') return words('', 'stop', html`<strong>${t('runs.is_stopped')}</strong> ${run.reason}`);
    if (run.status !== 'paused') return nothing;
    const next = t(possible(this.shown).retry ? 'runs.retry_hint' : 'runs.resume_hint');
    return words('warn', 'pause', html`<strong>${t('runs.is_paused')}</strong> ${run.reason} ${next}`);
  }

  #question() {
    const { question_id: id, is_waiting: waits } = this.shown;
    if (!waits || !this.#session) return nothing;
    const calls = tasksOf(this.#session.state).flatMap((task) => task.blocks.filter((block) => block.type === 'call').filter(({ question }) => question?.id === id));
    const call = calls.at(-1);
    if (!call?.question?.document) return loading();
    return html`<section class="r-question" aria-labelledby="run-asks"><h2 id="run-asks">${t('runs.asks')}</h2>
      <il-question .question=${call.question} .callId=${call.callId} .status=${'waiting'} @answered=${() => this.#load()}></il-question></section>`;
  }

  #graph(frames) {
    if (!frames.length) return html`<p class="muted">${t('runs.erased')}</p>`;
    const at = currentVisit(this.shown)?.frame ?? '';
    const wanted = this.frame ?? at;
    const { frame, graph } = frames.find((each) => each.frame === wanted) ?? frames[0];
    const standing = { states: nodeStates(this.shown, frame, graph), times: edgeCounter(this.shown, frame) };
    return html`<section class="card r-graph" aria-label=${t('runs.graph', { name: graph.name })}>
      ${frames.length > 1 ? html`<div class="v-chips r-frames" role="group" aria-label=${t('runs.frames')}>${frames.map((each) => html`<button type="button" class="chip"
        aria-pressed=${each.frame === frame ? 'true' : 'false'} @click=${() => (this.frame = each.frame)}>${each.name}</button>`)}</div>` : nothing}
      ${graphView(graph, standing)}${nodeList(graph, standing)}
    </section>`;
  }

  #context(frames) {
    const tasks = new Map(tasksOf(this.#session?.state ?? { entries: [] }).map((task) => [task.id, task]));
    return {
      frames,
      tasks,
      opened: this.opened,
      toggle: (number, open) => {
        if (this.opened.has(number) === open) return;
        const opened = new Set(this.opened);
        if (open) opened.add(number);
        else opened.delete(number);
        this.opened = opened;
      },
    };
  }
}

customElements.define('il-run', WorkflowRunView);
