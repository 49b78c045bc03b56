/** A question in the stream: a widget while it is open, the answer as soon as there is one, from whichever window. */
import { html, nothing } from 'lit';
import { api } from '../api.js';
import { View } from '../base.js';
import { errorText } from '../dialog.js';
import { gate, icon } from '../icons.js';
import { markdown } from '../markdown.js';
import { announce } from '../store.js';
import { t } from '../texts.js';
import { initialDraft, readAnswer, serverErrors } from './answering.js';
import { answerView, widgetView } from './widgets.js';

let number = 0;

class Question extends View {
  static properties = {
    question: { attribute: false },
    callId: { attribute: false },
    status: {},
    ended: { type: Boolean },
    draft: { state: true },
    errors: { state: true },
    busy: { state: true },
  };

  #of = null;

  constructor() {
    super();
    this.errors = {};
    this.name = `q${++number}`;
  }

  willUpdate() {
    if (this.#of === this.question.id) return;
    this.#of = this.question.id;
    this.draft = initialDraft(this.question.document);
    this.errors = {};
  }

  render() {
    const { question } = this;
    const { document } = question;
    const isOpen = question.status === 'open' && !this.ended;
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
      ${this.errors['']
        ? html`<div class="notice error" role="alert">${icon('error')}<p>${t(...this.errors[''])}</p></div>`
        : nothing}
      <fieldset ?disabled=${this.busy}>${widgetView(this)}</fieldset>
    </form>`;
  }

  #closed() {
    const { question } = this;
    if (question.status === 'answered') return answerView(question);
    const words = question.reason || t('question.closed_unanswered');
    return html`${question.document.plan ? html`<div class="plan md">${markdown(question.document.plan)}</div>` : nothing}
      <p class="muted">${icon('info')} ${words}</p>`;
  }

  /** @param {object} change */
  edit(change) {
    this.draft = { ...this.draft, ...change };
    if (Object.keys(this.errors).length) this.errors = {};
  }

  /** The attributes that tie a field to its error. @param {string} path */
  errorOf(path) {
    const error = this.errors[path];
    const id = `${this.name}-${path.replace(/\W/g, '-')}-error`;
    return {
      invalid: error ? 'true' : nothing,
      describedBy: error ? id : nothing,
      message: error ? html`<p class="field-error" id=${id} role="alert">${icon('error')}<span>${t(...error)}</span></p>` : nothing,
    };
  }

  #submit(event) {
    event.preventDefault();
    this.answer();
  }

  /** @param {unknown} [decision] what the pressed button stands for */
  async answer(decision) {
    const { answer, errors } = readAnswer(this.question.document, this.draft, decision);
    this.errors = errors;
    if (!answer) return this.#showFault();
    this.busy = true;
    try {
      const { question } = await api.request('ask_user.answer', { question_id: this.question.id, answer });
      announce(t('question.answered'));
      this.dispatchEvent(new CustomEvent('answered', { bubbles: true }));
      // The event says the same; this is only sooner.
      if (question?.answer) this.question = { ...this.question, status: 'answered', answer: question.answer, who: question.closed_by };
    } catch (error) {
      this.errors = error.code === 'INVALID_ANSWER' ? serverErrors(error.message) : { '': ['question.server', { problem: errorText(error) }] };
      this.#showFault();
    }
    this.busy = false;
  }

  async #showFault() {
    await this.updateComplete;
    this.querySelector('[aria-invalid="true"]')?.focus();
  }
}

customElements.define('il-question', Question);
