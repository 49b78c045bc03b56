/** One card for one tool call, from the moment it is asked for. A refusal turns the same card into a refusal. */
import { html, nothing } from 'lit';
import { api } from '../api.js';
import { PageElement } from '../page-element.js';
import { copyButton } from '../copy-button.js';
import { gate, icon } from '../icons.js';
import { formatBytes, formatDuration, formatNumber, t, translated } from '../i18n.js';
import { phrase } from './tool-call-description.js';
import './question-view.js';

const FIRST_LINES = 6;
/** So many more are shown at once: a button would take as much room. */
const FEW_LINES = 2;
const PAGE_LINES = 200;
const TICK_MS = 100;

/** The server suggests a mode only where this person can switch to it and it would help. */
export const suggestsModeSwitch = ({ next_action: next }) => /\/mode \w/.test(next) && Boolean(api.info?.can_switch_modes);

class ToolCallView extends PageElement {
  static properties = {
    call: { attribute: false },
    /** Of its task; empty where a plan of it cannot be built. */
    mode: { attribute: false },
    ended: { type: Boolean },
    lines: { state: true },
    now: { state: true },
  };

  #ticking = 0;

  constructor() {
    super();
    /** @type {import('./reducer.js').CallBlock} */
    this.call = undefined;
    /** @type {string} */
    this.mode = undefined;
    /** @type {boolean} */
    this.ended = undefined;
    this.lines = FIRST_LINES;
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearInterval(this.#ticking);
    this.#ticking = 0;
  }

  /** A call whose task has ended does not run any more, whatever was told of it last. */
  get #status() {
    const { status, question } = this.call;
    if (question?.status === 'open' && !this.ended) return 'waiting';
    return this.ended && (status === 'running' || status === 'asked') ? 'interrupted' : status;
  }

  willUpdate() {
    const runs = this.#status === 'running';
    if (runs && !this.#ticking) this.#ticking = setInterval(() => (this.now = Date.now()), TICK_MS);
    if (!runs && this.#ticking) {
      clearInterval(this.#ticking);
      this.#ticking = 0;
    }
  }

  render() {
    const { call } = this;
    const status = this.#status;
    if (call.question?.document) return this.#question(call, status);
    return html`<article class="call ${status}" data-call-id=${call.callId} aria-label="${t(`status.${status}`)}: ${call.tool}">
      <header>
        ${gate(status)}
        <span class="call-name">${call.tool}</span>
        ${call.calledAs ? html`<span class="muted">${t('call.called_as', { name: call.calledAs })}</span>` : nothing}
        <span class="call-words">${phrase(call.tool, call.arguments)}</span>
        <span class="call-state">${this.#time()}<span class="badge ${BADGES[status]}">${t(`status.${status}`)}</span></span>
      </header>
      ${status === 'denied' ? this.#denial() : this.#result()} ${this.#arguments()}
    </article>`;
  }

  #question(call, status) {
    return html`<il-question
      .question=${call.question}
      .callId=${call.callId}
      .mode=${this.mode ?? ''}
      .status=${status}
      ?ended=${this.ended}
    ></il-question>`;
  }

  #time() {
    const { startedUs, latencyMs } = this.call;
    if (this.#status === 'running' && startedUs) {
      const spent = Math.max(0, (this.now ?? Date.now()) - startedUs / 1000);
      return html`<span class="call-time">${formatDuration(Math.floor(spent / TICK_MS) * TICK_MS || TICK_MS)}</span>`;
    }
    if (latencyMs === null || this.#status === 'denied') return nothing;
    return html`<span class="call-time">${formatDuration(latencyMs)}</span>`;
  }

  #arguments() {
    const args = this.call.arguments;
    const isEmpty = args === null || (typeof args === 'object' && !Object.keys(args).length);
    if (isEmpty) return nothing;
    const text = typeof args === 'string' ? args : JSON.stringify(args, null, 2);
    return html`<details class="fold">
      <summary>${t('call.arguments')}</summary>
      <div class="fold-body">${copyButton(() => text)}<pre tabindex="0" aria-label=${t('call.arguments')}>${text}</pre></div>
    </details>`;
  }

  // -- refused --

  #denial() {
    const { denial } = this.call;
    return html`<dl class="denial">
      <dt>${t('denial.what')}</dt>
      <dd class="short"><code>${denial.tool_name}</code></dd>
      <dt>${t('denial.mode')}</dt>
      <dd><code>${denial.mode}</code></dd>
      <dt>${t('denial.why')}</dt>
      <dd>${translated(denial.message)} <code class="error-code">${denial.error_code}</code></dd>
      <dt>${t('denial.next')}</dt>
      <dd>${translated(denial.next_action)}</dd>
    </dl>
    <div class="call-actions">
      ${suggestsModeSwitch(denial)
        ? html`<button type="button" class="btn tiny" @click=${this.#switch}>${t('denial.switch')}</button>`
        : nothing}
      <a class="btn tiny ghost" href="#/authority/${encodeURIComponent(denial.tool_name)}">${icon('authority')}${t('denial.authority', { tool: denial.tool_name })}</a>
    </div>`;
  }

  #switch() {
    this.dispatchEvent(new CustomEvent('switch-mode', { bubbles: true }));
  }

  // -- what came of it --

  #result() {
    const { result } = this.call;
    if (this.#status === 'interrupted' && !result) return html`<p class="call-message">${t('call.interrupted')}</p>`;
    if (!result) return nothing;
    return html`${result.ok === true ? nothing : this.#failure(result)} ${this.#output(result)} ${this.#about(result)}`;
  }

  #failure(result) {
    return html`<div class="call-message failed-message">
      <p>${icon('error')} ${translated(result.message) || t('call.failed')} ${result.error_code ? html`<code class="error-code">${result.error_code}</code>` : nothing}</p>
      ${result.next_action ? html`<p class="hint">${t('call.next', { step: translated(result.next_action) })}</p>` : nothing}
    </div>`;
  }

  #output(result) {
    const parts = ['stdout', 'stderr'].filter((name) => typeof result[name] === 'string' && result[name].trim());
    if (!parts.length) return result.ok === true ? html`<p class="call-message muted">${t('call.no_output')}</p>` : nothing;
    return parts.map((name) => this.#stream(name, result[name].replace(/\n+$/, ''), parts.length > 1 || name === 'stderr'));
  }

  #stream(name, text, labelled) {
    const all = text.split('\n');
    const isFew = all.length <= FIRST_LINES + FEW_LINES;
    const shown = isFew ? all : all.slice(0, this.lines);
    const more = all.length - shown.length;
    const step = this.lines === FIRST_LINES ? PAGE_LINES - FIRST_LINES : PAGE_LINES;
    return html`<div class="output ${name}">
      ${labelled ? html`<span class="output-name">${name}</span>` : nothing}
      <pre tabindex="0" aria-label=${t('call.result')}>${shown.join('\n')}</pre>
      ${all.length > 1 ? copyButton(() => text) : nothing}
      ${!isFew
        ? html`<div class="output-tools">
            ${more > 0
              ? html`<button type="button" class="btn tiny ghost" @click=${() => (this.lines += step)}>
                  ${icon('chevron')}${t('call.more_lines', { n: Math.min(more, step), all: formatNumber(all.length) })}
                </button>`
              : nothing}
            ${this.lines > FIRST_LINES
              ? html`<button type="button" class="btn tiny ghost" @click=${() => (this.lines = FIRST_LINES)}>${t('call.fewer')}</button>`
              : nothing}
          </div>`
        : nothing}
    </div>`;
  }

  #about(result) {
    const facts = [];
    if (typeof result.exit_code === 'number' && this.call.tool.startsWith('bash')) {
      facts.push(t('call.exit', { code: result.exit_code }));
    }
    if (result.truncated_lines) facts.push(t('call.cut_lines', { n: formatNumber(result.truncated_lines) }));
    if (result.truncated_bytes) facts.push(t('call.cut_bytes', { size: formatBytes(result.truncated_bytes) }));
    if (result.next_page_cursor) facts.push(t('call.next_page'));
    if (this.call.sandbox === 'off' && this.call.tool.startsWith('bash')) facts.push(t('call.no_sandbox'));
    return facts.length ? html`<p class="call-facts">${facts.map((fact) => html`<span>${fact}</span>`)}</p>` : nothing;
  }
}

const BADGES = { ok: 'ok', denied: 'denied', failed: 'error', interrupted: 'warn', running: 'info', asked: '', waiting: 'info' };

customElements.define('il-call', ToolCallView);
