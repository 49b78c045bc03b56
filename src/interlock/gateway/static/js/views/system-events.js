/** The `system` stream as a list, the newest first: settings changed, logins, sandbox probed … Emits `choose`. */
import { html, nothing } from 'lit';
import { repeat } from 'lit/directives/repeat.js';
import { api } from '../api.js';
import { PageElement } from '../page-element.js';
import { formatNumber, t } from '../i18n.js';
import { kindName, describeEvent } from './event-text.js';
import { empty, loading, problem, time } from './components.js';

const PAGE = 100;
/** Nothing rings for this stream, so it is looked at now and then. */
const LOOK_MS = 10_000;

class SystemEventList extends PageElement {
  static properties = {
    chosen: { attribute: false },
    events: { state: true },
    hasMore: { state: true },
    failed: { state: true },
    hiddenKinds: { state: true },
    text: { state: true },
  };

  constructor() {
    super();
    /** @type {string} */
    this.chosen = undefined;
    this.hiddenKinds = new Set();
    this.text = '';
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(api.onState((state) => state === 'open' && this.#newer()));
    const shown = () => document.visibilityState === 'visible' && this.#newer();
    document.addEventListener('visibilitychange', shown);
    this.until(() => document.removeEventListener('visibilitychange', shown));
    const timer = setInterval(() => this.events && shown(), LOOK_MS);
    this.until(() => clearInterval(timer));
  }

  async #newer() {
    const last = this.events?.at(-1)?.seq ?? 0;
    try {
      const { events } = await api.request('events.tail', last ? { after_seq: last, limit: PAGE } : { limit: PAGE });
      this.failed = null;
      if (!this.events) this.hasMore = events.length === PAGE;
      this.events = [...(this.events ?? []), ...events.filter(({ seq }) => seq > last)];
    } catch (error) {
      this.failed = error;
    }
  }

  async #older() {
    try {
      const { events } = await api.request('events.tail', { before_seq: this.events[0].seq, limit: PAGE });
      this.hasMore = events.length === PAGE;
      this.events = [...events, ...this.events];
    } catch (error) {
      this.failed = error;
    }
  }

  #turn(kind) {
    const hidden = new Set(this.hiddenKinds);
    if (!hidden.delete(kind)) hidden.add(kind);
    this.hiddenKinds = hidden;
  }

  #choose(event) {
    const row = { id: event.id, events: [event], start: event.time_us, duration: null, tokens: null, category: 'system' };
    this.dispatchEvent(new CustomEvent('choose', { detail: row }));
  }

  /** Gives the focus back to an entry. @param {string} id */
  focusRow(id) {
    const row = /** @type {HTMLElement} */ (this.querySelector(`[data-row="${id}"]`));
    row?.focus();
  }

  render() {
    if (this.failed && !this.events) return problem(this.failed, () => this.#newer());
    if (!this.events) return loading();
    if (!this.events.length) return empty(t('activity.system_empty'), t('activity.system_empty_text'));
    const counts = new Map();
    for (const { kind } of this.events) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    const wanted = this.text.trim().toLowerCase();
    const shown = this.events.toReversed().filter((event) => !this.hiddenKinds.has(event.kind)
      && (!wanted || `${describeEvent(event).join(' ')} ${event.kind} ${JSON.stringify(event.payload)}`.toLowerCase().includes(wanted)));
    return html`
      <div class="v-filters" role="group" aria-label=${t('activity.filter')}>
        <div class="v-chips">${[...counts].map(([kind, n]) => html`<button type="button" class="chip v-kind"
          aria-pressed=${this.hiddenKinds.has(kind) ? 'false' : 'true'} @click=${() => this.#turn(kind)}>${kindName(kind)}
          <span class="v-count">${formatNumber(n)}</span></button>`)}</div>
        <input type="search" class="v-search" .value=${this.text} placeholder=${t('activity.search')} aria-label=${t('activity.search')}
          @input=${(event) => (this.text = event.target.value)} />
      </div>
      ${shown.length ? html`<ol class="v-system">${repeat(shown, ({ id }) => id, (event) => this.#entry(event))}</ol>`
        : html`<p class="empty">${t('activity.nothing_matches')}</p>`}
      ${this.failed ? problem(this.failed) : nothing}
      ${this.hasMore ? html`<p><button type="button" class="btn" @click=${this.#older}>${t('activity.older')}</button></p>` : nothing}`;
  }

  #entry(event) {
    const [title, more] = describeEvent(event);
    return html`<li><button type="button" class="v-system-entry" data-row=${event.id} aria-pressed=${event.id === this.chosen ? 'true' : 'false'}
      @click=${() => this.#choose(event)}>
      <span class="v-system-time">${time(event.time_us)}</span>
      <span class="v-what-text"><strong>${title}</strong> <span class="v-more">${more}</span></span>
      <span class="muted small">#${event.seq}</span>
    </button></li>`;
  }
}

customElements.define('il-system-list', SystemEventList);
