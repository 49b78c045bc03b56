import { html, plain } from 'lit';
import { PageElement } from './page-element.js';
import { icon } from './icons.js';
import { t } from './i18n.js';

const SHOWN_MS = 1600;

/** A button that copies what `text` gives, and says so. @param {() => string} text */
export function copyButton(text) {
  return html`<il-copy .text=${text}></il-copy>`;
}

class CopyButton extends PageElement {
  static properties = { text: { attribute: false }, outcome: { state: true } };

  constructor() {
    super();
    /** @type {() => string} */
    this.text = undefined;
    this.outcome = '';
  }

  render() {
    const words = t(this.outcome ? `common.${this.outcome}` : 'common.copy');
    return html`<button type="button" class="btn tiny ghost" @click=${this.#copy}>
      ${icon(this.outcome === 'copied' ? 'check' : 'copy')}<span aria-live="polite">${words}</span>
    </button>`;
  }

  async #copy() {
    this.outcome = (await copyText(this.text())) ? 'copied' : 'not_copied';
    setTimeout(() => (this.outcome = ''), SHOWN_MS);
  }
}

customElements.define('il-copy', CopyButton);

/**
 * As it is shown: what cannot be seen could be a command for the terminal that it is pasted into.
 * @param {string} given @returns {Promise<boolean>}
 */
export async function copyText(given) {
  const text = plain(given);
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** Without https the clipboard is closed to scripts, but not to a selection. */
function copyBySelection(text) {
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'sr-only';
  document.body.append(area);
  area.select();
  try {
    return document.execCommand('copy');
  } catch {
    return false;
  } finally {
    area.remove();
  }
}
