/** Where messages are written. The draft of each session is kept in this browser until it is sent. */
import { html, nothing } from 'lit';
import { live } from 'lit/directives/live.js';
import { View } from '../base.js';
import { icon } from '../icons.js';
import { kept } from '../store.js';
import { t } from '../texts.js';

const MAX_CHARS = 200_000;
const TALLEST_PX = 260;
const KEEP_MS = 200;

class Composer extends View {
  static properties = {
    /** Under which name the draft is kept. */
    draftKey: { attribute: false },
    /** Why nothing can be sent now; empty when it can. */
    reason: {},
    /** A word about what sending does now. */
    hint: {},
    /** Whether something runs that can be stopped. */
    running: { type: Boolean },
    stopping: { type: Boolean },
    text: { state: true },
  };

  #timer = 0;
  /** Only what was typed in this window is kept by it: another may have a draft of the same session. */
  #isChanged = false;

  constructor() {
    super();
    this.text = '';
    this.reason = '';
    this.hint = '';
  }

  connectedCallback() {
    super.connectedCallback();
    const keep = () => this.#keep();
    addEventListener('pagehide', keep);
    this.until(() => removeEventListener('pagehide', keep));
  }

  disconnectedCallback() {
    this.#keep();
    super.disconnectedCallback();
  }

  willUpdate(changed) {
    if (!changed.has('draftKey')) return;
    const before = changed.get('draftKey');
    if (before !== undefined) this.#keep(before);
    this.text = kept.get(`draft.${this.draftKey}`);
  }

  updated() {
    this.#grow();
  }

  focus() {
    this.querySelector('textarea')?.focus();
  }

  /** @param {string} text */
  fill(text) {
    this.text = text;
    this.#isChanged = true;
    this.#keep();
    this.focus();
  }

  render() {
    const tooLong = this.text.length > MAX_CHARS;
    const why = this.reason || (tooLong ? t('composer.too_long') : '');
    const can = !why && this.text.trim() !== '';
    return html`<form class="composer" @submit=${this.#submit}>
      <div class="composer-box">
        <textarea
          rows="1"
          dir="auto"
          aria-label=${t('composer.label')}
          placeholder=${t('composer.placeholder')}
          aria-describedby="composer-note"
          enterkeyhint="send"
          .value=${live(this.text)}
          @input=${this.#typed}
          @keydown=${this.#key}
        ></textarea>
        ${this.running
          ? html`<button type="button" class="btn stop" ?disabled=${this.stopping} @click=${this.#stop}>
              ${icon('stop')}<span>${t(this.stopping ? 'composer.stopping' : 'composer.stop')}</span>
            </button>`
          : nothing}
        <button type="submit" class="btn primary send" ?disabled=${!can} title=${t('composer.send')} aria-label=${t('composer.send')}>${icon('send')}</button>
      </div>
      <p class="composer-note ${why ? 'why' : ''}" id="composer-note" role=${why ? 'status' : nothing}>
        ${why || this.hint || t('composer.keys')}
      </p>
    </form>`;
  }

  #typed(event) {
    this.text = event.target.value;
    this.#isChanged = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#keep(), KEEP_MS);
  }

  #keep(key = this.draftKey) {
    clearTimeout(this.#timer);
    if (key === undefined || !this.#isChanged) return;
    this.#isChanged = false;
    kept.set(`draft.${key}`, this.text.length <= MAX_CHARS ? this.text : '');
  }

  #grow() {
    const area = this.querySelector('textarea');
    area.style.height = 'auto';
    area.style.height = `${Math.min(area.scrollHeight + 2, TALLEST_PX)}px`;
  }

  /** Enter that ends the writing of a Chinese or Japanese word is not meant for us. */
  #key(event) {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    this.#submit(event);
  }

  #submit(event) {
    event.preventDefault();
    const content = this.text.trim();
    if (!content || this.reason || this.text.length > MAX_CHARS) return;
    this.text = '';
    this.#isChanged = true;
    this.#keep();
    this.dispatchEvent(new CustomEvent('message', { detail: content }));
  }

  #stop() {
    this.dispatchEvent(new CustomEvent('stop'));
  }
}

customElements.define('il-composer', Composer);
