/** The timeline: the event tree as rows with bars on one time axis. Emits `choose` with a row. */
import { html, nothing, svg } from 'lit';
import { repeat } from 'lit/directives/repeat.js';
import { PageElement } from '../page-element.js';
import { formatDuration, formatNumber, language, t } from '../i18n.js';
import { describeRow, short } from './event-text.js';
import { icon } from './components.js';
import { timeAxis } from './time-axis.js';
import { CATEGORIES, counted, flat, visible } from './timeline-rows.js';

/** How much of the axis the words of a cut take, in percent. */
const CUT_WORDS = 26;
const MARK = { denied: 'cross', failed: 'warn', limit: 'warn', unknown: 'warn', waiting: 'clock', expired: 'clock' };
const SAID_CHARS = 60;
/** Messages stand in the chat; they are counted here and shown on demand. */
const HIDDEN_FIRST = new Set(['message']);

class TimelineView extends PageElement {
  static properties = {
    rows: { attribute: false },
    /** What the tasks are about, by their ids. */
    said: { attribute: false },
    chosen: { attribute: false },
    hiddenKinds: { state: true },
    folded: { state: true },
    text: { state: true },
    at: { state: true },
  };

  constructor() {
    super();
    /** @type {string} */
    this.chosen = undefined;
    this.rows = [];
    this.said = new Map();
    this.hiddenKinds = HIDDEN_FIRST;
    this.folded = new Set();
    this.text = '';
    this.at = '';
  }

  #matches(row) {
    if (this.hiddenKinds.has(row.category)) return false;
    const wanted = this.text.trim().toLowerCase();
    if (!wanted) return true;
    return this.#words(row).join(' ').toLowerCase().includes(wanted)
      || row.events.some(({ kind, payload }) => kind.includes(wanted) || JSON.stringify(payload ?? '').toLowerCase().includes(wanted));
  }

  /** Of several tasks each is known by what was asked. */
  #words(row) {
    const [title, more] = describeRow(row);
    const said = row.category === 'task' ? this.said.get(row.events[0].payload?.task_id) : '';
    return said ? [title, `${short(said, SAID_CHARS)} · ${more}`] : [title, more];
  }

  #turn(category) {
    const hidden = new Set(this.hiddenKinds);
    if (!hidden.delete(category)) hidden.add(category);
    this.hiddenKinds = hidden;
  }

  #fold(row, folded = !this.folded.has(row.id)) {
    const all = new Set(this.folded);
    if (folded) all.add(row.id);
    else all.delete(row.id);
    this.folded = all;
  }

  #choose(row) {
    this.at = row.id;
    this.dispatchEvent(new CustomEvent('choose', { detail: row }));
  }

  /** Gives the focus back to a row. @param {string} id */
  focusRow(id) {
    this.at = id;
    this.updateComplete.then(() => /** @type {HTMLElement} */ (this.querySelector(`[data-row="${id}"]`))?.focus());
  }

  #key(event, shown) {
    const n = shown.findIndex(({ row }) => row.id === this.at);
    if (n < 0 || event.target.getAttribute('role') !== 'row') return;
    const { row, hasChildren } = shown[n];
    const go = (to) => shown[to] && this.focusRow(shown[to].row.id);
    const isFolded = this.folded.has(row.id);
    const act = {
      ArrowDown: () => go(n + 1),
      ArrowUp: () => go(n - 1),
      Home: () => go(0),
      End: () => go(shown.length - 1),
      ArrowRight: () => (hasChildren && isFolded ? this.#fold(row, false) : go(n + 1)),
      ArrowLeft: () => (hasChildren && !isFolded ? this.#fold(row, true)
        : go(shown.findLastIndex((each, place) => place < n && each.row.level < row.level))),
      Enter: () => this.#choose(row),
      ' ': () => this.#choose(row),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  render() {
    const counts = counted(this.rows);
    const shown = visible(this.rows, { matches: (row) => this.#matches(row), isFolded: (row) => this.folded.has(row.id) });
    if (!shown.some(({ row }) => row.id === this.at)) this.at = shown[0]?.row.id ?? '';
    return html`${this.#filters(counts)}
      ${shown.length ? this.#tree(shown) : html`<div class="empty stack"><p>${t('activity.nothing_matches')}</p>
        <p><button type="button" class="btn" @click=${this.#showAll}>${t('activity.show_all')}</button></p></div>`}`;
  }

  #showAll() {
    this.hiddenKinds = new Set();
    this.text = '';
  }

  #filters(counts) {
    return html`<div class="v-filters" role="group" aria-label=${t('activity.filter')}>
      <div class="v-chips">
        ${CATEGORIES.filter((category) => counts.has(category)).map((category) => html`<button type="button" class="chip v-kind is-${category}"
          aria-pressed=${this.hiddenKinds.has(category) ? 'false' : 'true'} @click=${() => this.#turn(category)}
          ><span class="v-swatch" aria-hidden="true"></span>${t(`activity.category.${category}`)}
          <span class="v-count">${formatNumber(counts.get(category))}</span></button>`)}
      </div>
      <input type="search" class="v-search" .value=${this.text} placeholder=${t('activity.search')} aria-label=${t('activity.search')}
        @input=${(event) => (this.text = event.target.value)} />
    </div>`;
  }

  #tree(shown) {
    const scale = timeAxis(flat(this.rows));
    const hasCost = shown.some(({ row }) => row.cost);
    return html`<div class="v-timeline ${hasCost ? 'has-cost' : ''}" role="treegrid" aria-label=${t('activity.timeline')}
      @keydown=${(event) => this.#key(event, shown)}>
      <div role="row" class="v-row v-row-head">
        <span role="columnheader">${t('activity.what')}</span>
        <span role="columnheader" class="v-axis"><span class="sr-only">${t('activity.when')}</span>${axis(scale)}</span>
        <span role="columnheader" class="v-number">${t('activity.duration')}</span>
        <span role="columnheader" class="v-number">${t('activity.tokens')}</span>
        ${hasCost ? html`<span role="columnheader" class="v-number">${t('activity.cost')}</span>` : nothing}
      </div>
      ${repeat(shown, ({ row }) => row.id, (item) => this.#row(item, scale, hasCost))}
    </div>
    <p class="hint">${scale.cuts.length ? t('activity.cut') : nothing} ${t('activity.keys')}</p>`;
  }

  #row({ row, isMatch, hasChildren }, scale, hasCost) {
    const [title, more] = this.#words(row);
    const isFolded = this.folded.has(row.id);
    const isCode = row.category === 'call' || row.category === 'denied' || row.category === 'question';
    return html`<div role="row" class="v-row is-${row.category} ${isMatch ? '' : 'is-context'} ${row.state ? `state-${row.state}` : ''}"
      data-row=${row.id} aria-level=${row.level + 1} aria-expanded=${hasChildren ? String(!isFolded) : nothing}
      aria-selected=${row.id === this.chosen ? 'true' : 'false'} tabindex=${row.id === this.at ? 0 : -1}
      @click=${() => this.#choose(row)} @focus=${() => (this.at = row.id)}>
      <span role="gridcell" class="v-what level-${Math.min(row.level, 8)}">
        ${hasChildren ? html`<button type="button" class="v-fold ${isFolded ? '' : 'is-open'}" tabindex="-1"
            aria-label=${t(isFolded ? 'activity.unfold' : 'activity.fold', { what: title })}
            @click=${(event) => { event.stopPropagation(); this.#fold(row); }}>${icon('right')}</button>`
          : html`<span class="v-fold"></span>`}
        <span class="v-swatch" aria-hidden="true"></span>
        <span class="v-what-text"><span class="sr-only">${t(`activity.category.${row.category}`)}: </span>
          ${isCode ? html`<code>${title}</code>` : html`<strong>${title}</strong>`}
          ${MARK[row.state] ? html`<span class="v-mark">${icon(MARK[row.state])}${t(`activity.state.${row.state}`)}</span>` : nothing}
          ${row.isOpen && row.state !== 'waiting' ? html`<span class="v-mark is-live">${t('activity.state.running')}</span>` : nothing}
          <span class="v-more">${more}</span></span>
      </span>
      <span role="gridcell" class="v-bar">${bar(row, scale)}</span>
      <span role="gridcell" class="v-number">${row.duration === null ? nothing : formatDuration(row.duration)}</span>
      <span role="gridcell" class="v-number">${row.tokens ? tokens(row.tokens) : nothing}</span>
      ${hasCost ? html`<span role="gridcell" class="v-number">${row.cost ? cost(row.cost) : nothing}</span>` : nothing}
    </div>`;
  }
}

function tokens({ input, output }) {
  return html`<span title=${t('activity.tokens_title', { input: formatNumber(input), output: formatNumber(output) })}>${formatNumber(input)}<span
    class="v-plus"> + </span>${formatNumber(output)}</span>`;
}

/** A price that is not known is not 0. @param {import('./timeline-rows.js').Cost} cost */
export function cost({ known, isWhole }) {
  const amount = known.toLocaleString(language() === 'zh' ? 'zh-CN' : 'en', { maximumSignificantDigits: 3 });
  if (isWhole) return amount;
  return known ? t('activity.cost_at_least', { cost: amount }) : t('activity.cost_unknown');
}

function axis({ ticks, cuts }) {
  return html`<svg class="v-axis-svg" width="100%" height="18" aria-hidden="true">
    ${ticks.map(({ at, ms }) => svg`${at > 75 && at <= 92 ? nothing : tickText(at, ms)}
      <line x1="${at}%" x2="${at}%" y1="4" y2="18" />`)}
    ${withRoom(cuts).map(({ at, ms }) => svg`<text x="${at}%" y="13" class="v-cut-text"
      text-anchor=${at > 85 ? 'end' : at < 15 ? 'start' : 'middle'} dx=${at > 85 ? 24 : 0}>⋯ ${formatDuration(ms)} ⋯</text>`)}
  </svg>`;
}

/** Between the two there is no room: its words would run into the next column. */
function tickText(at, ms) {
  return svg`<text x="${at}%" y="13" text-anchor=${at > 92 ? 'end' : 'start'} dx=${at > 92 ? 0 : 3}>${ms ? formatDuration(ms) : '0'}</text>`;
}

/** The cuts whose words do not run into those of the one before. */
function withRoom(cuts) {
  let last = -Infinity;
  return cuts.filter(({ at }) => at - last >= CUT_WORDS && (last = at) === at);
}

function bar(row, { at, ticks, cuts }) {
  const from = at(row.start);
  const wide = Math.max(at(row.end) - from, 0);
  const grid = ticks.map((tick) => svg`<line class="v-grid" x1="${tick.at}%" x2="${tick.at}%" y1="0" y2="100%" />`);
  const cut = cuts.map((each) => svg`<rect class="v-cut" x="${each.from}%" width="${each.to - each.from}%" y="0" height="100%" />`);
  if (row.isPoint) {
    return html`<svg width="100%" height="24" aria-hidden="true">${grid}${cut}
      <svg x="${from}%" y="12" overflow="visible"><path class="v-point" d="M0 -5 5 0 0 5 -5 0Z" /></svg></svg>`;
  }
  const core = row.core && [at(row.core[0]), at(row.core[1])];
  const isScope = row.core || row.children.length > 0 || row.category === 'task' || row.category === 'agent';
  return html`<svg width="100%" height="24" aria-hidden="true">${grid}${cut}
    <rect class=${isScope ? 'v-scope' : 'v-solid'} x="${from}%" width="${wide}%" y="7" height="10" rx="2" />
    <rect class="v-edge" x="${from}%" width="2" y="7" height="10" />
    ${core ? svg`<rect class="v-solid" x="${core[0]}%" width="${Math.max(core[1] - core[0], 0)}%" y="7" height="10" rx="2" />` : nothing}
    ${row.isOpen ? svg`<rect class="v-open" x="${from}%" width="${wide}%" y="7" height="10" rx="2" />` : nothing}
  </svg>`;
}

customElements.define('il-timeline', TimelineView);
