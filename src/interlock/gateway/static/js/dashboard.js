/** A small dashboard: turns, tokens per day, denials by tool, errors by class, costs as far as they are known. */
import { html, nothing, svg } from 'lit';
import { api } from './api.js';
import { PageElement } from './page-element.js';
import { formatNumber, hasText, language, t } from './i18n.js';
import { debounced, loading, problem } from './views/components.js';
import { costOf, sumOfCosts } from './views/timeline-rows.js';
import { cost } from './views/timeline.js';

const SPANS = [7, 30, 90];
const HEIGHT = 170;
const FOOT = 22;
const HEAD = 12;

class DashboardView extends PageElement {
  static properties = {
    span: { state: true },
    stats: { state: true },
    failed: { state: true },
  };

  #refresh = debounced(() => this.#load(), 3000, 10_000);
  #number = 0;

  constructor() {
    super();
    this.span = 7;
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(api.onState((state) => state === 'open' && this.#load()));
    this.until(api.onFrame((frame) => frame.seq && this.#refresh()));
    this.until(() => this.#refresh.cancel());
  }

  async #load() {
    const number = ++this.#number;
    try {
      const stats = await api.request('stats.get', { days: this.span });
      if (number !== this.#number) return;
      this.stats = stats;
      this.failed = null;
    } catch (error) {
      if (number === this.#number) this.failed = error;
    }
  }

  #choose(span) {
    this.span = span;
    this.#load();
  }

  render() {
    return html`<section class="v-dashboard" aria-labelledby="dash-title">
      <div class="row wrap">
        <h2 class="grow" id="dash-title">${t('dash.title', { n: this.span })}</h2>
        <div class="v-segments" role="group" aria-label=${t('dash.span')}>
          ${SPANS.map((span) => html`<button type="button" class="btn tiny" aria-pressed=${span === this.span ? 'true' : 'false'}
            @click=${() => this.#choose(span)}>${t('dash.days', { n: span })}</button>`)}
        </div>
      </div>
      ${this.failed ? problem(this.failed, () => this.#load()) : this.stats ? this.#body() : loading()}
    </section>`;
  }

  #body() {
    const { days } = this.stats;
    return html`${this.#totals(days)}
      <div class="v-panels">
        <div class="card v-wide">${this.#tokens(days)}</div>
        <div class="card">${ranking(t('dash.denials_by_tool'), this.stats.denials_by_tool, sumOf(days, 'denials'), t('dash.no_denials'),
          (tool) => html`<a href="#/authority/${encodeURIComponent(tool)}"><code>${tool}</code></a>`, 'is-denied')}</div>
        <div class="card">${ranking(t('dash.errors_by_class'), this.stats.errors_by_class, sumOf(days, 'errors'), t('dash.no_errors'),
          (name) => (hasText(`dash.class.${name}`) ? t(`dash.class.${name}`) : name), 'is-error')}</div>
      </div>`;
  }

  #totals(days) {
    const sum = (name) => sumOf(days, name);
    const cards = ['turns', 'tasks', 'calls', 'denials', 'errors'].map((name) => [t(`dash.${name}`), formatNumber(sum(name)),
      sum(name) && (name === 'denials' || name === 'errors') ? `is-${name}` : '']);
    cards.push([t('dash.tokens'), `${formatNumber(sum('input_tokens'))} + ${formatNumber(sum('output_tokens'))}`, '']);
    cards.push([t('dash.cost'), cost(sumOfCosts(days.map(costOf))), '']);
    return html`<dl class="v-stats v-cards">${cards.map(([name, value, state]) =>
      html`<div class=${state}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
  }

  #tokens(days) {
    const highest = Math.max(...days.map((day) => day.input_tokens + day.output_tokens), 0);
    return html`<figure class="v-figure">
      <figcaption class="row wrap"><h3 class="grow">${t('dash.tokens_per_day')}</h3>
        <span class="v-key is-input"><span class="v-swatch"></span>${t('dash.input')}</span>
        <span class="v-key is-output"><span class="v-swatch"></span>${t('dash.output')}</span></figcaption>
      ${highest ? chart(days, highest) : html`<p class="muted">${t('dash.no_tokens')}</p>`}
      <details><summary>${t('dash.as_table')}</summary>${table(days)}</details>
    </figure>`;
  }
}

/** @param {string} date @param {Intl.DateTimeFormatOptions} [options] */
function dayName(date, options = { month: 'short', day: 'numeric' }) {
  return new Date(`${date}T12:00:00Z`).toLocaleDateString(language() === 'zh' ? 'zh-CN' : 'en-GB', { ...options, timeZone: 'UTC' });
}

function chart(days, highest) {
  const room = HEIGHT - FOOT - HEAD;
  const wide = 100 / days.length;
  const tall = (n) => (n / highest) * room;
  const every = Math.ceil(days.length / 6);
  const label = t('dash.chart_label', { n: days.length, most: formatNumber(highest) });
  const lines = [HEAD, HEAD + room / 2, HEAD + room];
  return html`<svg class="v-chart" width="100%" height=${HEIGHT} role="img" aria-label=${label}>
    ${lines.map((y) => svg`<line class="v-grid" x1="0" x2="100%" y1=${y} y2=${y} />`)}
    <text x="0" y=${HEAD - 2} class="v-chart-max">${compact(highest)}</text>
    ${days.map((day, n) => {
      const up = tall(day.input_tokens);
      const more = tall(day.output_tokens);
      const x = n * wide + wide * 0.14;
      const words = t('activity.tokens_title', { input: formatNumber(day.input_tokens), output: formatNumber(day.output_tokens) });
      return svg`<g><title>${dayName(day.date)}: ${words}</title>
        <rect class="v-hit" x="${n * wide}%" width="${wide}%" y="0" height=${HEIGHT - FOOT} />
        <rect class="v-in" x="${x}%" width="${wide * 0.72}%" y=${HEAD + room - up} height=${up} />
        <rect class="v-out" x="${x}%" width="${wide * 0.72}%" y=${HEAD + room - up - more} height=${more && Math.max(more, 1.5)} /></g>`;
    })}
    ${days.map((day, n) => ((days.length - 1 - n) % every ? nothing : svg`<text x="${(n + 0.5) * wide}%" y=${HEIGHT - 6}
      text-anchor=${n === days.length - 1 && days.length > 12 ? 'end' : 'middle'}>${dayName(day.date)}</text>`))}
  </svg>`;
}

function compact(n) {
  return n.toLocaleString(language() === 'zh' ? 'zh-CN' : 'en', { notation: 'compact', maximumFractionDigits: 1 });
}

function table(days) {
  const columns = ['turns', 'tasks', 'calls', 'denials', 'errors', 'input_tokens', 'output_tokens'];
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label=${t('dash.as_table')}><table class="grid v-numbers">
    <caption class="sr-only">${t('dash.tokens_per_day')}</caption>
    <thead><tr><th scope="col">${t('dash.day')}</th>
      ${columns.map((name) => html`<th scope="col">${t(`dash.${name}`)}</th>`)}</tr></thead>
    <tbody>${days.toReversed().map((day) => html`<tr><th scope="row">${dayName(day.date)}</th>
      ${columns.map((name) => html`<td>${formatNumber(day[name] ?? 0)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** The most frequent first, each with a bar. */
const sumOf = (days, name) => days.reduce((total, day) => total + (day[name] ?? 0), 0);

/** The most frequent, and last the rest of `total`: rarer ones, and those without a name. */
function ranking(title, counts, total, nothingSaid, name, state) {
  const list = Object.entries(counts ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 8);
  const rest = list.reduce((left, [, n]) => left - n, total);
  if (rest > 0) list.push(['', rest]);
  const most = Math.max(...list.map(([, n]) => n));
  return html`<h3>${title}</h3>
    ${list.length ? html`<ol class="v-ranking ${state}">${list.map(([key, n]) => html`<li>
      <span class="v-rank-name">${key ? name(key) : t('dash.rest')}</span><span class="v-rank-n">${formatNumber(n)}</span>
      <svg width="100%" height="6" aria-hidden="true"><rect class="v-rank-ground" width="100%" height="6" rx="3" />
        <rect class="v-rank-bar" width="${(n / most) * 100}%" height="6" rx="3" /></svg>
    </li>`)}</ol>` : html`<p class="muted">${nothingSaid}</p>`}`;
}

customElements.define('il-dashboard', DashboardView);
