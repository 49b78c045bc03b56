/** "ExplainCall a call": checks a call layer by layer without running it. */
import { html, nothing } from 'lit';
import { live } from 'lit/directives/live.js';
import { api } from '../api.js';
import { PageElement } from '../page-element.js';
import { t, translated } from '../i18n.js';
import { hash, icon, layerName, problem } from './components.js';
import { LAYERS, likelyArguments, modesOf } from './policy-matrix-data.js';

class ExplainCall extends PageElement {
  static properties = {
    matrix: { attribute: false },
    asked: { attribute: false },
    sessionId: { attribute: false },
    tool: { state: true },
    mode: { state: true },
    text: { state: true },
    wrong: { state: true },
    answer: { state: true },
    failed: { state: true },
    busy: { state: true },
  };

  #given = '';
  #number = 0;

  constructor() {
    super();
    /** @type {any} */
    this.matrix = undefined;
    /** @type {any} */
    this.asked = undefined;
    /** @type {string} */
    this.sessionId = undefined;
    this.tool = 'read_file';
    this.mode = 'chat_safe';
    this.text = this.#given = likelyArguments(this.tool);
  }

  willUpdate(changed) {
    if (changed.has('asked') && this.asked) {
      if (this.asked.mode) this.mode = this.asked.mode;
      if (this.asked.tool) this.#setTool(this.asked.tool);
      if (this.asked.now) this.#explain({ alone: true });
    } else if (changed.has('sessionId') && this.answer) {
      this.#explain({ alone: this.answer.alone });
    }
  }

  #setTool(tool) {
    this.tool = tool;
    if (!this.text.trim() || this.text === this.#given) this.text = this.#given = likelyArguments(tool);
    this.wrong = '';
  }

  async #explain({ alone = false } = {}) {
    const params = { tool_name: this.tool.trim(), mode: this.mode };
    if (!params.tool_name) return;
    if (this.sessionId) params.session_id = this.sessionId;
    const text = this.text.trim();
    // Without arguments the tool itself is judged.
    const judged = text && !alone;
    if (judged) {
      try {
        params.arguments = JSON.parse(text);
        if (params.arguments === null || typeof params.arguments !== 'object' || Array.isArray(params.arguments)) throw new Error('');
      } catch (error) {
        this.wrong = t('explain.not_json', { message: error?.message ?? '' });
        await this.updateComplete;
        /** @type {HTMLElement} */ (this.querySelector('#explain-arguments')).focus();
        return;
      }
    }
    this.wrong = '';
    this.busy = true;
    const number = ++this.#number;
    try {
      const answer = await api.request('policy.explain', params);
      if (number === this.#number) this.answer = { ...answer, alone: !judged };
      this.failed = null;
    } catch (error) {
      if (number === this.#number) this.failed = error;
    } finally {
      if (number === this.#number) this.busy = false;
    }
  }

  #submit(event) {
    event.preventDefault();
    this.#explain();
  }

  render() {
    const modes = modesOf(this.matrix);
    return html`<h2>${t('explain.title')}</h2>
      <p class="hint">${t('explain.intro')}</p>
      <form class="stack v-explain" novalidate @submit=${this.#submit}>
        <div class="v-pair">
          <div class="field">
            <label for="explain-tool">${t('explain.tool')}</label>
            <input type="text" id="explain-tool" list="explain-tools" autocomplete="off" spellcheck="false" .value=${live(this.tool)}
              @input=${(event) => this.#setTool(event.target.value)} />
            <datalist id="explain-tools">${this.matrix.tools.map(({ name }) => html`<option value=${name}></option>`)}</datalist>
          </div>
          <div class="field">
            <label for="explain-mode">${t('explain.mode')}</label>
            <select id="explain-mode" @change=${(event) => (this.mode = event.target.value)}>
              ${modes.map((mode) => html`<option value=${mode} .selected=${mode === this.mode}>${this.matrix.open_modes.includes(mode)
                ? mode : t('explain.mode_closed', { mode })}</option>`)}
            </select>
          </div>
        </div>
        <div class="field">
          <label for="explain-arguments">${t('explain.arguments')}</label>
          <textarea id="explain-arguments" class="mono" rows="3" spellcheck="false" .value=${live(this.text)}
            aria-invalid=${this.wrong ? 'true' : nothing} aria-describedby="explain-arguments-hint"
            @input=${(event) => (this.text = event.target.value)}></textarea>
          <p class="hint" id="explain-arguments-hint">${t('explain.arguments_hint')}</p>
          ${this.wrong ? html`<p class="field-error" role="alert">${icon('warn')}<span>${this.wrong}</span></p>` : nothing}
        </div>
        <button class="btn primary" ?disabled=${this.busy || !this.tool.trim()}>${t('explain.ask')}</button>
      </form>
      <div role="status" class="v-answer">${this.failed ? problem(this.failed) : this.answer ? this.#answer() : nothing}</div>`;
  }

  #answer() {
    const { allowed, tool_name: tool, mode, error_class: kind, alone } = this.answer;
    const key = allowed ? (alone ? 'explain.yes_alone' : 'explain.yes') : kind === 'policy' ? 'explain.no' : 'explain.wrong';
    return html`<div class="v-verdict ${allowed ? 'is-yes' : 'is-no'}">
        <p class="v-verdict-head">${icon(allowed ? 'check' : 'cross')}<strong>${t(key, { tool, mode })}</strong></p>
        ${allowed ? nothing : html`<p>${translated(this.answer.message)}</p>`}
      </div>
      <dl class="v-facts">
        ${allowed ? nothing : html`
          <dt>${t('authority.by')}</dt><dd>${layerName(this.answer.layer, this.answer.decided_by)}</dd>
          <dt>${t('authority.code')}</dt><dd><code>${this.answer.error_code}</code> <span class="muted">${kind}</span></dd>
          <dt>${t('explain.next')}</dt><dd>${translated(this.answer.next_action)}</dd>`}
        <dt>${t('explain.digest')}</dt><dd>${hash(this.answer.authority_digest, { length: 16, label: t('explain.digest') })}</dd>
      </dl>
      ${this.#layers()}`;
  }

  /** Who was asked, in order: each either let it pass, said no, or was not asked any more. */
  #layers() {
    const { allowed, layer, alone } = this.answer;
    const decided = allowed ? LAYERS.length : LAYERS.indexOf(layer);
    if (decided < 0) return nothing;
    return html`<h3 class="v-layers-head">${t('explain.layers')}</h3>
      <ol class="v-layers">${LAYERS.map((name, n) => {
        const skipped = n > decided || (alone && allowed && name === 'arguments');
        const state = n === decided ? 'no' : skipped ? 'not' : 'pass';
        return html`<li class="is-${state}">${state === 'not' ? html`<span class="v-dot"></span>` : icon(state === 'no' ? 'cross' : 'check')}
          <span>${layerName(name)}</span><span class="v-layer-state">${t(`explain.layer_${state}`)}</span></li>`;
      })}</ol>`;
  }
}

customElements.define('il-explain', ExplainCall);
