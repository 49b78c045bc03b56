/** A question in the stream: a widget while it is open, the answer as soon as there is one, from whichever window. */
import { html, nothing } from 'lit';
import { api } from '../api.js';
import { PageElement } from '../page-element.js';
import { errorText } from '../dialog.js';
import { gate, icon } from '../icons.js';
import { markdown } from '../markdown.js';
import { announce, kept } from '../session-store.js';
import { t } from '../i18n.js';
import { restoreDraft, validateAnswer, serverErrors } from './answer-validation.js';
import { answerView, widgetView } from './question-widgets.js';

let number = 0;

class QuestionView extends PageElement {
  static properties = {
    question: { attribute: false },
    callId: { attribute: false },
    /** In which it was asked; empty where that does not matter. */
    mode: { attribute: false },
    status: {},
    ended: { type: Boolean },
    draft: { state: true },
    errors: { state: true },
    busy: { state: true },
  };

  #of = null;

  constructor() {
    super();
    /** @type {string} */
    this.callId = undefined;
    /** @type {string} */
    this.mode = undefined;
    /** @type {boolean} */
    this.ended = undefined;
    this.errors = {};
    this.name = `q${++number}`;
  }

  willUpdate() {
    if (!this.#isOpen) kept.set(this.#keptAs, '');
    if (this.#of === this.question.id) return;
    this.#of = this.question.id;
    this.draft = restoreDraft(this.question.document, kept.get(this.#keptAs));
    this.errors = {};
  }

  get #isOpen() {
    return this.question.status === 'open' && !this.ended;
  }

  get #keptAs() {
    return `answer.${this.question.id}`;
  }

  render() {
    const { question } = this;
    const { document } = question;
    const isOpen = this.#isOpen;
    const state = isOpen ? 'waiting' : question.status === 'answered' ? 'ok' : 'interrupted';
    return html`<article class="question ${isOpen ? 'open' : 'closed'}" data-call-id=${this.callId} data-question-id=${question.id} aria-labelledby="${this.name}-title">
      <header>
        ${gate(state)}
        <h2 id="${this.name}-title">${document.title || t(`question.${document.type}`)}</h2>
        <span class="badge ${isOpen ? 'info' : ''}">${this.#state(isOpen)}</span>
      </header>
      <div class="question-message md">${markdown(document.message)}</div>
      ${isOpen ? this.#form() : this.#closed()}
    </article>`;
  }

  #state(isOpen) {
    if (isOpen) return t('question.open');
    return t(this.question.status === 'answered' ? 'question.answered' : 'question.closed');
  }

  #form() {
    return html`<form novalidate @submit=${(event) => this.#submit(event)}>
      ${this.#fault()}
      <fieldset ?disabled=${this.busy}>${widgetView(this)}</fieldset>
    </form>`;
  }

  /** A plan that was made in plan mode can be built where coding is open. The server judges it again. */
  get canBuild() {
    const opens = api.info?.can_switch_modes && api.info.open_modes.includes('coding');
    return this.question.document.type === 'plan_review' && this.mode === 'plan' && Boolean(opens);
  }

  #fault() {
    if (!this.errors['']) return nothing;
    return html`<div class="notice error" role="alert">${icon('error')}<p>${t(this.errors[''][0], this.errors[''][1])}</p></div>`;
  }

  #closed() {
    const { question } = this;
    if (question.status === 'answered') return html`${answerView(question)} ${this.#buildLater()}`;
    const words = question.reason || t('question.closed_unanswered');
    return html`${question.document.plan ? html`<div class="plan md">${markdown(question.document.plan)}</div>` : nothing}
      <p class="muted">${icon('info')} ${words}</p>`;
  }

  #buildLater() {
    const { question } = this;
    if (!this.canBuild || question.isBuilt || question.answer?.decision !== 'approve') return nothing;
    return html`<form novalidate @submit=${(event) => event.preventDefault()}>
      ${this.#fault()}
      <div class="question-foot">
        <span class="hint grow">${t('question.build_hint')}</span>
        <button type="button" class="btn" ?disabled=${this.busy} @click=${() => this.#build()}>${t('question.build')}</button>
      </div>
    </form>`;
  }

  /** Of a plan that was approved before. */
  async #build() {
    this.busy = true;
    try {
      await api.request('ask_user.build', { question_id: this.question.id });
      this.question = { ...this.question, isBuilt: true };
      this.dispatchEvent(new CustomEvent('answered', { bubbles: true }));
    } catch (error) {
      this.errors = { '': ['question.server', { problem: errorText(error) }] };
    }
    this.busy = false;
  }

  /** @param {object} change */
  edit(change) {
    this.draft = { ...this.draft, ...change };
    kept.set(this.#keptAs, JSON.stringify(this.draft));
    if (Object.keys(this.errors).length) this.errors = {};
  }

  /** The attributes that tie a field to its error. @param {string} path */
  errorOf(path) {
    const error = this.errors[path];
    const id = `${this.name}-${path.replace(/\W/g, '-')}-error`;
    return {
      invalid: error ? 'true' : nothing,
      describedBy: error ? id : nothing,
      message: error ? html`<p class="field-error" id=${id} role="alert">${icon('error')}<span>${t(error[0], error[1])}</span></p>` : nothing,
    };
  }

  #submit(event) {
    event.preventDefault();
    this.answer();
  }

  /** @param {unknown} [decision] what the pressed button stands for @param {boolean} [starts] its building, too */
  async answer(decision, starts = false) {
    const { answer, errors } = validateAnswer(this.question.document, this.draft, decision);
    this.errors = errors;
    if (!answer) return this.#showFault();
    this.busy = true;
    try {
      const { question } = await api.request('ask_user.answer', {
        question_id: this.question.id,
        answer,
        ...(starts && { start_build: true }),
      });
      announce(t('question.answered'));
      this.dispatchEvent(new CustomEvent('answered', { bubbles: true }));
      // The event says the same; this is only sooner.
      const told = { status: 'answered', answer: question?.answer, who: question?.closed_by };
      if (question?.answer) this.question = { ...this.question, ...told, isBuilt: starts };
    } catch (error) {
      this.errors = error.code === 'INVALID_ANSWER' ? serverErrors(error.message) : { '': ['question.server', { problem: errorText(error) }] };
      this.#showFault();
    }
    this.busy = false;
  }

  async #showFault() {
    await this.updateComplete;
    const wrong = /** @type {HTMLElement} */ (this.querySelector('[aria-invalid="true"]'));
    wrong?.focus();
  }
}

customElements.define('il-question', QuestionView);
