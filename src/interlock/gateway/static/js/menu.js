/** A button that opens a few commands. The list is a popover, so that nothing clips it. */
import { html, nothing } from 'lit';
import { PageElement } from './page-element.js';
import { icon } from './icons.js';

let number = 0;

/** @typedef {{label: string, icon: string, run?: () => void, href?: string, danger?: boolean}} MenuItem */

class PopupMenu extends PageElement {
  static properties = { label: {}, items: { attribute: false }, open: { state: true } };

  constructor() {
    super();
    /** @type {string} */
    this.label = undefined;
    this.items = [];
    this.open = false;
    this.name = `menu-${++number}`;
  }

  /** @returns {HTMLElement} */
  get #list() {
    return this.querySelector('[popover]');
  }

  render() {
    return html`<button
        type="button"
        class="icon-btn"
        aria-haspopup="menu"
        aria-expanded=${this.open}
        aria-label=${this.label}
        title=${this.label}
        popovertarget=${this.name}
      >
        ${icon('more')}
      </button>
      <div id=${this.name} popover role="menu" class="menu" aria-label=${this.label} @toggle=${this.#toggled} @keydown=${this.#key}>
        ${this.open ? this.items.map((item) => this.#item(item)) : nothing}
      </div>`;
  }

  #item(item) {
    const kind = `menu-item ${item.danger ? 'danger' : ''}`;
    if (item.href) {
      return html`<a role="menuitem" class=${kind} href=${item.href} download @click=${() => this.#list.hidePopover()}>
        ${icon(item.icon)}${item.label}
      </a>`;
    }
    const run = () => {
      this.#list.hidePopover();
      item.run();
    };
    return html`<button type="button" role="menuitem" class=${kind} @click=${run}>${icon(item.icon)}${item.label}</button>`;
  }

  async #toggled(event) {
    this.open = event.newState === 'open';
    await this.updateComplete;
    if (!this.open) return;
    const button = this.querySelector('button').getBoundingClientRect();
    const list = this.#list;
    const { offsetWidth: width, offsetHeight: height } = list;
    list.style.left = `${Math.max(8, Math.min(button.right - width, innerWidth - width - 8))}px`;
    list.style.top = `${button.bottom + height + 8 > innerHeight ? Math.max(8, button.top - height - 4) : button.bottom + 4}px`;
    const first = /** @type {HTMLElement} */ (list.querySelector('[role=menuitem]'));
    first?.focus();
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    /** @type {Element[]} */
    const items = [...this.querySelectorAll('[role=menuitem]')];
    const at = items.indexOf(document.activeElement);
    const next = /** @type {HTMLElement} */ (items[(at + step + items.length) % items.length]);
    next?.focus();
  }
}

customElements.define('il-menu', PopupMenu);
