import { LitElement } from 'lit';
import { onLanguageChange } from './i18n.js';

/** An element in the light DOM, so that the one stylesheet applies. It renders again when the language changes. */
export class PageElement extends LitElement {
  #off = [];

  createRenderRoot() {
    return this;
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(onLanguageChange(() => this.requestUpdate()));
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    for (const off of this.#off.splice(0)) off();
  }

  /** Calls `off` when the element leaves the page. Call it in `connectedCallback`. @param {() => void} off */
  until(off) {
    this.#off.push(off);
  }
}
