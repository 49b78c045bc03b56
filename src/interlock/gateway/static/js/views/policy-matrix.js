/** The tools × modes matrix: a grid of buttons, each with who decided and why. */
import { html, nothing } from 'lit';
import { PageElement } from '../page-element.js';
import { t, translated } from '../i18n.js';
import { hash, icon, layerName } from './components.js';
import { groupTools, effectiveCell, formatLimits, modesOf } from './policy-matrix-data.js';

const EDGE = 8;

class PolicyMatrix extends PageElement {
  static properties = {
    matrix: { attribute: false },
    marked: { attribute: false },
    mode: { attribute: false },
    shown: { state: true },
    at: { state: true },
  };

  #tapped = '';

  constructor() {
    super();
    /** @type {any} */
    this.matrix = undefined;
    /** @type {string} */
    this.marked = undefined;
    /** @type {string} */
    this.mode = undefined;
    this.at = [0, 0];
  }

  connectedCallback() {
    super.connectedCallback();
    const follow = () => this.shown && this.#place();
    addEventListener('scroll', follow, { capture: true, passive: true });
    addEventListener('resize', follow);
    this.until(() => removeEventListener('scroll', follow, { capture: true }));
    this.until(() => removeEventListener('resize', follow));
  }

  #show(event, tool, mode) {
    this.shown = { tool, mode, button: event.currentTarget };
  }

  #hide(event) {
    if (event.type === 'mouseleave' && document.activeElement === this.shown?.button) return;
    this.shown = null;
  }

  #focused(event, row, column, tool, mode) {
    this.at = [row, column];
    if (event.currentTarget.matches(':focus-visible') || !this.shown) this.#show(event, tool, mode);
  }

  /** Arrow keys move from cell to cell. */
  #key(event) {
    if (event.key === 'Escape') this.shown = null;
    const [row, column] = this.at;
    const last = [this.matrix.tools.length - 1, modesOf(this.matrix).length - 1];
    const step = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? last[0] : row, last[1]],
    }[event.key];
    if (!step) return;
    event.preventDefault();
    const clamp = (n, most) => Math.max(0, Math.min(n, most));
    this.at = [clamp(step[0], last[0]), clamp(step[1], last[1])];
    const cell = /** @type {HTMLElement} */ (this.querySelector(`[data-at="${this.at}"]`));
    cell?.focus();
  }

  updated(changed) {
    if (this.shown) this.#place();
    if (this.marked && (changed.has('marked') || changed.get('matrix') === undefined && changed.has('matrix'))) {
      this.#scrollTo(this.querySelector('tr.is-marked'));
    }
  }

  /** Within the table only: the page stays where it is. */
  #scrollTo(row) {
    const box = this.querySelector('.v-matrix-box');
    if (row) box.scrollTop = row.offsetTop - (box.clientHeight - row.offsetHeight) / 2;
  }

  #place() {
    const tip = /** @type {HTMLElement} */ (this.querySelector('.v-tip'));
    if (!tip) return;
    const { left, right, top, bottom } = this.shown.button.getBoundingClientRect();
    const box = this.querySelector('.v-matrix-box').getBoundingClientRect();
    tip.hidden = bottom < box.top || top > Math.min(box.bottom, innerHeight) || right < box.left || left > box.right;
    const { width, height } = tip.getBoundingClientRect();
    const middle = (left + right) / 2 - width / 2;
    tip.style.left = `${Math.max(EDGE, Math.min(middle, innerWidth - width - EDGE))}px`;
    tip.style.top = `${bottom + height + EDGE > innerHeight && top - height - EDGE > 0 ? top - height - EDGE : bottom + EDGE}px`;
  }

  render() {
    if (!this.matrix) return nothing;
    const modes = modesOf(this.matrix);
    let row = 0;
    return html`
      <div class="v-matrix-box">
        <table class="v-matrix" role="grid" aria-describedby="matrix-keys" @keydown=${this.#key}>
          <caption class="sr-only">${t('authority.caption')}</caption>
          <thead>
            <tr>
              <th scope="col" class="v-corner">${t('authority.tool')}</th>
              ${modes.map((mode) => this.#head(mode))}
            </tr>
          </thead>
          ${groupTools(this.matrix.tools).map(([group, tools]) => html`<tbody>
            <tr class="v-group-row"><th scope="rowgroup" colspan=${modes.length + 1}>${t(`v.group.${group}`)}</th></tr>
            ${tools.map((tool) => this.#row(tool, modes, row++))}
          </tbody>`)}
        </table>
      </div>
      <p class="hint" id="matrix-keys">${t('authority.keys')}</p>
      <p class="hint">${t('authority.limits', formatLimits(this.matrix.limits))}</p>
      ${this.#legend(modes)}
      ${this.shown ? this.#tip() : nothing}`;
  }

  #isOpen(mode) {
    return this.matrix.open_modes.includes(mode);
  }

  #head(mode) {
    const open = this.#isOpen(mode);
    return html`<th scope="col" class=${open ? '' : 'is-closed'}>
      <code class="v-mode">${mode}</code>
      <span class="badge ${open ? 'ok' : ''}">${open ? nothing : icon('lock')}${t(open ? 'authority.open' : 'authority.closed')}</span>
      ${mode === this.mode ? html`<span class="badge info">${t('authority.this_mode')}</span>` : nothing}
    </th>`;
  }

  #row(tool, modes, row) {
    return html`<tr class=${tool.name === this.marked ? 'is-marked' : ''}>
      <th scope="row">
        <code>${tool.name}</code>
        <span class="v-effect is-${tool.effect}">${t(`v.effect.${tool.effect}`)}</span>
        ${tool.description ? html`<span class="v-about" title=${translated(tool.description)}>${translated(tool.description)}</span>` : nothing}
      </th>
      ${modes.map((mode, column) => this.#cell(tool, mode, row, column))}
    </tr>`;
  }

  #cell(tool, mode, row, column) {
    const cell = tool.modes[mode];
    const open = this.#isOpen(mode);
    const held = effectiveCell(cell);
    const shown = this.shown?.tool === tool && this.shown.mode === mode;
    const word = t(`authority.${open ? '' : 'would_'}${held.allowed ? 'yes' : 'no'}`);
    const by = held.allowed || held.layer === 'declaration' ? '' : t(`v.layer_short.${held.layer}`);
    return html`<td class=${open ? '' : 'is-closed'}>
      <button type="button" class="v-cell ${held.allowed ? 'is-yes' : 'is-no'}" data-at=${`${row},${column}`}
        tabindex=${this.at[0] === row && this.at[1] === column ? 0 : -1}
        aria-describedby=${shown ? 'matrix-tip' : nothing}
        aria-label=${[sentence(held, open, tool, mode), by].filter(Boolean).join(', ')}
        @mouseenter=${(event) => this.#show(event, tool, mode)} @mouseleave=${this.#hide}
        @focus=${(event) => this.#focused(event, row, column, tool, mode)} @blur=${this.#hide}
        @click=${(event) => this.#chosen(event, tool, mode)}
      >${icon(held.allowed ? 'check' : 'cross')}<span class="v-cell-word">${word}</span>
        ${by ? html`<span class="v-cell-by">${by}</span>` : nothing}</button>
    </td>`;
  }

  /** A finger has no way to point: its first tap shows who decided, the second explains. */
  #chosen(event, tool, mode) {
    this.#show(event, tool, mode);
    const cell = `${tool.name} ${mode}`;
    const isFirst = event.pointerType === 'touch' && this.#tapped !== cell;
    this.#tapped = cell;
    if (isFirst) return;
    this.dispatchEvent(new CustomEvent('cell', { detail: { tool: tool.name, mode, now: true } }));
  }

  #tip() {
    const { tool, mode } = this.shown;
    const cell = tool.modes[mode];
    const open = this.#isOpen(mode);
    const held = effectiveCell(cell);
    return html`<div class="v-tip" role="tooltip" id="matrix-tip">
      <p class="v-tip-head ${held.allowed ? 'is-yes' : 'is-no'}">${icon(held.allowed ? 'check' : 'cross')}
        <strong>${sentence(held, open, tool, mode)}</strong></p>
      ${open ? nothing : html`<p>${icon('lock')} ${t('authority.tip_closed', { mode })}</p>`}
      ${held.allowed ? nothing : html`
        <p>${translated(held.message)}</p>
        <dl class="v-facts">
          <dt>${t('authority.by')}</dt><dd>${layerName(held.layer, held.decided_by)}</dd>
          <dt>${t('authority.code')}</dt><dd><code>${held.error_code}</code></dd>
        </dl>`}
      <p class="hint">${t('authority.tip_click')}</p>
    </div>`;
  }

  #legend(modes) {
    return html`<details class="v-digests">
      <summary>${t('authority.digests')}</summary>
      <p class="hint">${t('authority.digests_hint')}</p>
      <dl class="v-facts">${modes.map((mode) => html`
        <dt><code>${mode}</code></dt><dd>${hash(this.matrix.digests[mode], { length: 20, label: t('authority.digest_of', { mode }) })}</dd>`)}
      </dl>
    </details>`;
  }
}

function sentence(held, open, tool, mode) {
  return t(`authority.tip_${open ? '' : 'would_'}${held.allowed ? 'yes' : 'no'}`, { tool: tool.name, mode });
}

customElements.define('il-matrix', PolicyMatrix);
