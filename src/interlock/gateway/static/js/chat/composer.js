/** Where messages are written. The draft of each session is kept in this browser until it is sent. */
import { html, nothing } from 'lit';
import { live } from 'lit/directives/live.js';
import { PageElement } from '../page-element.js';
import { icon } from '../icons.js';
import { announce, kept } from '../session-store.js';
import { t } from '../i18n.js';
import { parseSlash, suggestions } from './slash-parser.js';

const MAX_CHARS = 200_000;
const TALLEST_PX = 260;
const KEEP_MS = 200;

class Composer extends PageElement {
  static properties = {
    /** Under which name the draft is kept. */
    draftKey: { attribute: false },
    /** Why nothing can be sent now; empty when it can. */
    reason: {},
    /** A word about what sending does now. */
    hint: {},
    /** Whether something runs that can be stopped. */
    running: { type: Boolean },
    /** Gives what this person said before, the newest last. */
    past: { attribute: false },
    stopping: { type: Boolean },
    text: { state: true },
    /** Which suggestion is chosen, and for which text the list was closed. */
    at: { state: true },
    closedFor: { state: true },
    /** What came of a command, or why there is none. */
    told: { state: true },
  };

  #timer = 0;
  /** Only what was typed in this window is kept by it: another may have a draft of the same session. */
  #isChanged = false;
  /** How far back in it the arrow keys went. */
  #back = 0;

  constructor() {
    super();
    /** @type {string} */
    this.draftKey = undefined;
    /** @type {boolean} */
    this.running = undefined;
    /** @type {boolean} */
    this.stopping = undefined;
    /** @type {() => string[]} */
    this.past = undefined;
    this.text = '';
    this.reason = '';
    this.hint = '';
    this.at = -1;
    this.closedFor = null;
    this.told = null;
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
    this.#write(kept.get(`draft.${this.draftKey}`));
    // A draft is no reason to open a list.
    this.closedFor = this.text;
  }

  updated() {
    this.#grow();
    this.querySelector('[role=option][aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }

  focus() {
    this.querySelector('textarea')?.focus();
  }

  /** @param {string} text */
  fill(text) {
    this.#write(text);
    this.#isChanged = true;
    this.#keep();
    this.focus();
  }

  /** One line, until something is written. @param {string} text */
  tell(text) {
    this.told = { text };
    announce(text);
  }

  render() {
    const tooLong = this.text.length > MAX_CHARS;
    const why = this.reason || (tooLong ? t('composer.too_long') : '');
    const can = !why && this.text.trim() !== '';
    const items = this.#suggested;
    const chosen = items.length && this.at >= 0 ? `composer-option-${this.at}` : nothing;
    return html`<form class="composer" @submit=${this.#submit}>
      ${items.length ? this.#list(items) : nothing}
      <div class="composer-box">
        <textarea
          rows="1"
          dir="auto"
          aria-label=${t('composer.label')}
          placeholder=${t('composer.placeholder')}
          aria-describedby="composer-note"
          aria-autocomplete="list"
          aria-controls=${items.length ? 'composer-options' : nothing}
          aria-activedescendant=${chosen}
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
        ${this.running
          ? html`<button type="button" class="btn steer" ?disabled=${!can} title=${t('composer.steer_about')} @click=${(event) => this.#submit(event, true)}>
              ${t('composer.steer')}
            </button>`
          : nothing}
        <button type="submit" class="btn primary send" ?disabled=${!can} title=${t('composer.send')} aria-label=${t('composer.send')}>${icon('send')}</button>
      </div>
      ${this.told && !why ? this.#telling() : html`<p class="composer-note ${why ? 'why' : ''}" id="composer-note" role=${why ? 'status' : nothing}>
        ${why || this.hint || t(matchMedia('(hover: none)').matches ? 'composer.touch' : 'composer.keys')}
      </p>`}
    </form>`;
  }

  #telling() {
    const { text, problem: [key, values] = [] } = this.told;
    if (!key) return html`<p class="composer-note told" id="composer-note">${text}</p>`;
    return html`<p class="composer-note why" id="composer-note" role="alert">
      ${t(key, values)} <button type="button" class="link-btn" @click=${() => this.#send(this.text.trim())}>${t('slash.send_anyway')}</button>
    </p>`;
  }

  #list(items) {
    return html`<ul class="suggestions" id="composer-options" role="listbox" tabindex="0" aria-label=${t('slash.list')}>
      ${items.map(
        (item, number) => html`<li
          role="option"
          id="composer-option-${number}"
          aria-selected=${number === this.at}
          @mousedown=${(event) => event.preventDefault()}
          @click=${() => this.#take(item)}
        >
          <code>${item.text}${item.takes ? html` <span class="takes">${item.takes}</span>` : nothing}</code><span class="suggestion-about">${item.about}</span>
        </li>`,
      )}
    </ul>`;
  }

  get #suggested() {
    return this.reason || this.closedFor === this.text ? [] : suggestions(this.text).items;
  }

  #write(text) {
    const before = this.#suggested.length;
    this.text = text;
    this.#back = 0;
    this.told = null;
    this.closedFor = null;
    const { first, items } = suggestions(text);
    this.at = first;
    if (items.length && items.length !== before) announce(t('slash.count', { n: items.length }));
  }

  #typed(event) {
    this.#write(event.target.value);
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
    if (event.shiftKey || event.isComposing || event.keyCode === 229) return;
    const isTaken = this.#suggested.length ? this.#keyInList(event.key) : this.#recalls(event);
    if (!isTaken && event.key !== 'Enter') return;
    event.preventDefault();
    if (!isTaken) this.#submit(event, event.ctrlKey || event.metaKey);
  }

  /** Whether the list of suggestions had a use for the key. */
  #keyInList(key) {
    const items = this.#suggested;
    const item = items[this.at];
    const step = { ArrowDown: 1, ArrowUp: -1 }[key];
    if (step) this.at = this.at < 0 && step < 0 ? items.length - 1 : (this.at + step + items.length) % items.length;
    else if (key === 'Escape') this.closedFor = this.text;
    else if (key === 'Enter' && item) this.#take(item);
    else if (key === 'Tab' && item && item.text !== this.text) this.#complete(item);
    else return false;
    return true;
  }

  /** As in a terminal: what was said before, where nothing else is written and the caret can go no further. */
  #recalls({ key, target }) {
    const step = { ArrowUp: 1, ArrowDown: -1 }[key];
    const past = this.past?.() ?? [];
    if (!step || this.text !== (this.#back ? past.at(-this.#back) : '')) return false;
    const rest = step > 0 ? this.text.slice(0, target.selectionStart) : this.text.slice(target.selectionEnd);
    const back = this.#back + step;
    if (rest.includes('\n') || back < 0 || back > past.length) return false;
    this.fill(back ? past.at(-back) : '');
    this.#back = back;
    this.updateComplete.then(() => target.setSelectionRange(this.text.length, this.text.length));
    return true;
  }

  /** What is whole is done; what may have something behind it waits for that, or for Enter once more. */
  #take(item) {
    if (!item.runs && item.text !== this.text) return this.#complete(item);
    this.text = item.text;
    return this.#carryOut(parseSlash(item.text));
  }

  #complete({ text, runs }) {
    this.fill(runs ? text : `${text} `);
  }

  /** `steer`: what runs is to get it. Where nothing does, it is a message like any other. */
  #submit(event, steer = false) {
    event.preventDefault();
    const content = this.text.trim();
    if (!content || this.reason || this.text.length > MAX_CHARS) return;
    const command = parseSlash(content);
    if (command) this.#carryOut(command);
    else this.#send(content, steer && this.running);
  }

  #send(content, steer = false) {
    this.#empty();
    this.dispatchEvent(new CustomEvent(steer ? 'steer' : 'message', { detail: content }));
  }

  /** What is no command stays where it was written, and is not sent. */
  #carryOut(command) {
    if (command.problem) {
      this.closedFor = this.text;
      this.told = command;
      return;
    }
    this.#empty();
    this.dispatchEvent(new CustomEvent('command', { detail: command }));
  }

  #empty() {
    this.#write('');
    this.#isChanged = true;
    this.#keep();
  }

  #stop() {
    this.dispatchEvent(new CustomEvent('stop'));
  }
}

customElements.define('il-composer', Composer);
