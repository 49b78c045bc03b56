/** WorkflowsView: what there is, what is wrong with it, and starting a run. #/workflows[/NAME] */
import { html, nothing } from 'lit';
import { api } from './api.js';
import { PageElement } from './page-element.js';
import { t } from './i18n.js';
import { copyButton } from './copy-button.js';
import { graphView, nodeList } from './runs/graph-view.js';
import { runsView } from './runs/run-list.js';
import { startForm } from './runs/start-form.js';
import { debounced, empty, icon, loading, problem } from './views/components.js';

const NEWEST = 30;

/** To be copied into a shell. */
function tryIt(folder) {
  const place = /^[\w@%+=:,./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", `'\\''`)}'`;
  return `mkdir -p ${place} && cp -r examples/workflows/plan_build_review ${place}`;
}

class WorkflowsView extends PageElement {
  static properties = {
    route: { attribute: false },
    workflows: { state: true },
    /** Where the server looks for them. */
    folder: { state: true },
    chosen: { state: true },
    runs: { state: true },
    failed: { state: true },
    form: { state: true },
    wrong: { state: true },
    busy: { state: true },
  };

  #number = 0;
  #refresh = debounced(() => this.#loadRuns(), 300);

  constructor() {
    super();
    /** @type {any[]} */
    this.workflows = undefined;
    /** @type {string} */
    this.folder = undefined;
    this.route = [];
    this.form = { input: '', mode: '', model: '' };
  }

  get name() {
    return this.route?.[0] ?? '';
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(api.onState((state) => state === 'open' && this.#load()));
    this.until(api.onFrame((frame) => frame.type === 'session_changed' && this.workflows && this.#refresh()));
    this.until(() => this.#refresh.cancel());
  }

  willUpdate(changed) {
    if (!changed.has('route') || !this.hasUpdated) return;
    this.chosen = this.failed = this.wrong = this.runs = null;
    this.form = { ...this.form, input: '' };
    this.#load();
  }

  async #load() {
    const number = ++this.#number;
    try {
      const [{ workflows, folder }, chosen] = await Promise.all([
        api.request('workflows.list'),
        this.name ? api.request('workflows.get', { name: this.name }) : null,
      ]);
      if (number !== this.#number) return;
      Object.assign(this, { workflows, folder, chosen, failed: null });
      await this.#loadRuns();
    } catch (error) {
      if (number === this.#number) this.failed = error;
    }
  }

  async #loadRuns() {
    const { name } = this;
    try {
      const { runs } = await api.request('runs.list', { limit: NEWEST, ...(name && { workflow: name }) });
      if (name === this.name) this.runs = runs;
    } catch (error) {
      if (!this.runs) this.failed = error;
    }
  }

  async #start(event) {
    event.preventDefault();
    const { input, mode, model } = this.form;
    if (!mode && this.#modes().length > 1) {
      this.wrong = { mode: t('runs.choose_mode') };
      this.updateComplete.then(() => /** @type {HTMLElement} */ (this.querySelector('input[name=mode]'))?.focus());
      return;
    }
    this.busy = true;
    try {
      const params = { workflow: this.name, input, mode: mode || this.#modes()[0], ...(model && { model }) };
      const { run } = await api.request('runs.start', params);
      location.hash = `#/runs/${run.run_id}`;
    } catch (error) {
      this.wrong = { error };
    }
    this.busy = false;
  }

  #modes() {
    return api.info?.open_modes ?? [];
  }

  render() {
    return html`<div class="view v-view r-workflows">${this.name ? this.#one() : this.#all()}</div>`;
  }

  // -- all of them --

  #all() {
    return html`<header class="view-head"><div class="grow">
        <h1>${t('runs.title')}</h1>
        <p class="muted">${t('runs.intro')}</p>
      </div></header>
      ${this.failed ? problem(this.failed, () => this.#load()) : this.workflows ? this.#list() : loading()}`;
  }

  #list() {
    if (!this.workflows.length) return this.#none();
    return html`<ul class="r-cards">${this.workflows.map((each) => this.#card(each))}</ul>
      ${this.runs ? runsView(this.runs, { withWorkflow: true }) : nothing}`;
  }

  #none() {
    const command = tryIt(this.folder);
    return empty(t('runs.none'), t('runs.none_text', { folder: this.folder }), html`<div class="r-command"><pre>${command}</pre>${copyButton(() => command)}</div>
      <p class="hint">${t('runs.none_then')}</p>`);
  }

  #card({ name, description, problems }) {
    return html`<li class="card r-card">
      <div class="grow">
        <h2><a href="#/workflows/${name}">${name}</a></h2>
        ${description ? html`<p class="muted">${description}</p>` : nothing}
      </div>
      ${problems.length
        ? html`<div class="r-card-problems">${this.#problems(problems)}</div>`
        : html`<a class="btn" href="#/workflows/${name}">${t('runs.open')}</a>`}
    </li>`;
  }

  #problems(problems) {
    return html`<div class="notice error r-problems">
      ${icon('error')}
      <div class="grow">
        <p><strong>${t('runs.problems', { n: problems.length })}</strong> ${t('runs.problems_hint')}</p>
        <ul>${problems.map(({ file, line, text }) => html`<li><code>${file}${line ? `:${line}` : ''}</code> ${text}</li>`)}</ul>
      </div>
    </div>`;
  }

  // -- one of them --

  #one() {
    const { chosen } = this;
    return html`<header class="view-head"><div class="grow">
        <p class="small"><a href="#/workflows">${t('runs.title')}</a></p>
        <h1>${this.name}</h1>
        ${chosen?.description ? html`<p class="muted">${chosen.description}</p>` : nothing}
      </div></header>
      ${this.failed ? problem(this.failed, () => this.#load()) : chosen ? this.#about(chosen) : loading()}`;
  }

  #about({ workflow, problems }) {
    const canRun = workflow && !problems.length;
    return html`${problems.length ? this.#problems(problems) : nothing}
      <div class="r-columns">
        ${workflow ? html`<section class="card r-graph" aria-label=${t('runs.graph', { name: this.name })}>
          ${graphView(workflow)}${nodeList(workflow)}</section>` : nothing}
        <div class="r-main">
          ${canRun ? startForm({
            form: this.form,
            modes: this.#modes(),
            wrong: this.wrong,
            busy: this.busy,
            edit: (change) => {
              this.form = { ...this.form, ...change };
              this.wrong = null;
            },
            submit: (event) => this.#start(event),
          }) : nothing}
          ${this.runs ? runsView(this.runs, { withWorkflow: false }) : nothing}
        </div>
      </div>`;
  }
}

customElements.define('il-workflows', WorkflowsView);
