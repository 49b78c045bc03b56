/** "Verify hash chain" and "Export": the proof, with one click each. */
import { html, nothing } from 'lit';
import { api } from '../api.js';
import { PageElement } from '../page-element.js';
import { formatDuration, formatNumber, formatTime, t } from '../i18n.js';
import { download, icon, problem } from './components.js';

class LogVerification extends PageElement {
  static properties = {
    sessionId: { attribute: false },
    report: { state: true },
    failed: { state: true },
    busy: { state: true },
  };

  constructor() {
    super();
    /** @type {string} */
    this.sessionId = undefined;
  }

  async #verify() {
    this.busy = true;
    this.failed = this.report = null;
    const began = performance.now();
    try {
      const report = await api.request('events.verify');
      this.report = { ...report, took: performance.now() - began, at: Date.now() * 1000 };
    } catch (error) {
      this.failed = error;
    } finally {
      this.busy = false;
    }
  }

  async #export() {
    try {
      const { url } = await api.request('events.export', this.sessionId ? { session_id: this.sessionId } : {});
      download(url);
      this.failed = null;
    } catch (error) {
      this.failed = error;
    }
  }

  render() {
    return html`<div class="v-proof">
      <div class="row wrap">
        <button type="button" class="btn" ?disabled=${this.busy} @click=${this.#verify}>
          ${this.busy ? html`<span class="spinner" aria-hidden="true"></span>` : icon('shield')}
          ${t(this.busy ? 'activity.verifying' : 'activity.verify')}</button>
        <button type="button" class="btn" @click=${this.#export}>
          ${icon('download')}${t(this.sessionId ? 'activity.export_session' : 'activity.export_all')}</button>
      </div>
      <div role="status">${this.failed ? problem(this.failed) : this.report ? this.#report() : nothing}</div>
    </div>`;
  }

  #report() {
    const { ok, events, streams, erased, problems, took, at } = this.report;
    const counts = t('activity.verified_counts', {
      events: t('activity.n_events', { n: events, count: formatNumber(events) }),
      streams: t('activity.n_streams', { n: streams, count: formatNumber(streams) }),
      time: formatDuration(took),
    });
    if (ok) {
      return html`<div class="notice ok">${icon('check')}<p class="grow"><strong>${t('activity.intact')}</strong> ${counts}
        ${erased ? t('activity.n_erased', { n: erased, count: formatNumber(erased) }) : nothing}
        ${this.#coverage()} <span class="muted">${formatTime(at)}</span></p></div>${this.#notes()}`;
    }
    return html`<div class="notice error">${icon('warn')}<div class="grow stack v-tight">
      <p><strong>${t('activity.broken', { n: problems.length })}</strong> ${counts}</p>
      <ul class="v-list">${problems.map((each) => html`<li class="v-break">${said(each)}</li>`)}</ul>
      <p>${t('activity.broken_hint')}</p>
      <p>${this.#coverage()}</p>
    </div></div>${this.#notes()}`;
  }

  /** What is proved by more than hashes: a log that was rewritten as a whole has right ones. */
  #coverage() {
    const { signed, after_checkpoint, anchors, after_anchor } = this.report;
    const of = (key, n) => t(key, { n, count: formatNumber(n) });
    return [
      signed
        ? `${of('activity.n_signed', signed)} ${of('activity.n_after_checkpoint', after_checkpoint)}`
        : t('activity.not_signed'),
      anchors ? of('activity.n_after_anchor', after_anchor) : t('activity.no_anchor'),
    ].join(' ');
  }

  /** Sinks of anchors that could not be compared. */
  #notes() {
    const { notes } = this.report;
    return notes.length
      ? html`<div class="notice warn">${icon('warn')}<ul class="v-list grow">${notes.map((each) => html`<li>${each}</li>`)}</ul></div>`
      : nothing;
  }
}

function said(fault) {
  return typeof fault === 'string' ? fault : `${fault.what}: ${fault.stream} #${fault.seq}: ${fault.detail}`;
}

customElements.define('il-proof', LogVerification);
