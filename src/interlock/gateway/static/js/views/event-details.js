/** What a row of the timeline stands for: in words, then each event as it was written, with its hashes. */
import { html, nothing } from 'lit';
import { api } from '../api.js';
import { PageElement } from '../page-element.js';
import { formatDuration, formatMoment, formatNumber, t, translated } from '../i18n.js';
import { describeRow } from './event-text.js';
import { hash, icon, layerName } from './components.js';

const REFUSALS = ['tool_call.denied', 'tool_call.failed'];

class EventDetails extends PageElement {
  static properties = {
    row: { attribute: false },
    sessionId: { attribute: false },
    hashes: { state: true },
  };

  constructor() {
    super();
    /** @type {import('./timeline-rows.js').Row} */
    this.row = undefined;
    /** @type {string} */
    this.sessionId = undefined;
    this.hashes = new Map();
  }

  willUpdate(changed) {
    if (changed.has('row') && this.row) this.#fetch(this.row.events);
  }

  /** The tree has no hashes; the log has. */
  async #fetch(events) {
    const missing = events.filter((event) => !event.hash && !this.hashes.has(event.event_id));
    if (!missing.length) return;
    const seqs = missing.map(({ seq }) => seq);
    const session = this.sessionId ? { session_id: this.sessionId } : {};
    const found = await Promise.all(seqs.map((seq) =>
      api.request('events.tail', { ...session, before_seq: seq + 1, limit: 1 }).catch(() => ({ events: [] }))));
    const hashes = new Map(this.hashes);
    for (const { events: [event] } of found) if (event) hashes.set(event.id, event);
    this.hashes = hashes;
  }

  focusHeading() {
    this.updateComplete.then(() => this.querySelector('h2')?.focus());
  }

  #close() {
    this.dispatchEvent(new CustomEvent('close'));
  }

  render() {
    if (!this.row) return nothing;
    const [title, more] = describeRow(this.row);
    return html`<section class="v-details card" aria-labelledby="details-title"
      @keydown=${(event) => event.key === 'Escape' && this.#close()}>
      <header class="row">
        <h2 class="grow" id="details-title" tabindex="-1">${title}</h2>
        <button type="button" class="icon-btn" aria-label=${t('common.close')} title=${t('common.close')}
          @click=${this.#close}>${icon('close')}</button>
      </header>
      ${more ? html`<p class="v-break">${more}</p>` : nothing}
      ${this.#refusal()}
      ${this.#facts()}
      ${this.row.events.map((event, n) => this.#event(event, n))}
    </section>`;
  }

  #refusal() {
    const refusal = this.row.events.find(({ kind }) => REFUSALS.includes(kind))?.payload;
    if (!refusal) return nothing;
    const isDenied = Boolean(refusal.layer);
    return html`<div class="notice ${isDenied ? 'denied' : 'error'}">${icon(isDenied ? 'cross' : 'warn')}<div class="stack v-tight">
      <p><strong>${translated(refusal.error)}</strong></p>
      <dl class="v-facts">
        <dt>${t('authority.code')}</dt><dd><code>${refusal.error_code}</code></dd>
        ${isDenied ? html`<dt>${t('authority.by')}</dt><dd>${layerName(refusal.layer)}</dd>` : nothing}
        <dt>${t('explain.next')}</dt><dd>${translated(refusal.next_action)}</dd>
      </dl>
      ${isDenied ? html`<p><a href="#/authority/${encodeURIComponent(refusal.tool_name)}">${t('activity.see_authority')}</a></p>` : nothing}
    </div></div>`;
  }

  #facts() {
    const { row } = this;
    const digest = row.events.find(({ payload }) => payload?.authority_digest)?.payload.authority_digest;
    return html`<dl class="v-facts">
      <dt>${t('activity.time')}</dt><dd>${formatMoment(row.start)}</dd>
      ${row.duration === null ? nothing
        : html`<dt>${t('activity.duration')}</dt><dd>${formatDuration(row.duration)}</dd>`}
      ${row.tokens ? html`<dt>${t('activity.tokens')}</dt>
        <dd>${t('activity.tokens_title', { input: formatNumber(row.tokens.input), output: formatNumber(row.tokens.output) })}</dd>` : nothing}
      ${digest ? html`<dt>${t('explain.digest')}</dt><dd>${hash(digest, { length: 16, label: t('explain.digest') })}</dd>` : nothing}
    </dl>`;
  }

  #event(event, n) {
    const id = event.event_id ?? event.id;
    const known = event.hash ? event : this.hashes.get(id);
    return html`<details class="v-event" ?open=${n === 0}>
      <summary><code>${event.kind}</code> <span class="muted">#${event.seq}</span></summary>
      ${event.is_erased ? html`<p class="hint">${t('activity.erased')}</p>` : nothing}
      <pre class="v-payload" tabindex="0" aria-label=${t('activity.payload')}>${JSON.stringify(event.payload, null, 2)}</pre>
      <dl class="v-facts">
        <dt>${t('activity.id')}</dt><dd>${hash(id, { length: 32, label: t('activity.id') })}</dd>
        ${known ? html`
          <dt>${t('activity.hash')}</dt><dd>${hash(known.hash, { length: 24, label: t('activity.hash') })}</dd>
          <dt>${t('activity.prev_hash')}</dt><dd>${hash(known.prev_hash, { length: 24, label: t('activity.prev_hash') })}</dd>
          ${known.content_hash ? html`<dt>${t('activity.content_hash')}</dt>
            <dd>${hash(known.content_hash, { length: 24, label: t('activity.content_hash') })}</dd>` : nothing}` : nothing}
      </dl>
    </details>`;
  }
}

customElements.define('il-event-details', EventDetails);
