/** Dialogs: the browser's own, so that focus, Escape and the background are right. */
import { html, nothing, render } from 'lit';
import { icon } from './icons.js';
import { t } from './i18n.js';

let number = 0;

/**
 * Opens a dialog and resolves with what it was closed with; undefined for Escape, the cross and a click beside it.
 * `body` gets `close(value)` and `update()`, which renders it again.
 * @param {string} title
 * @param {(close: (value?: unknown) => void, update: () => void) => unknown} body
 */
export function openDialog(title, body) {
  return new Promise((resolve) => {
    const dialog = document.createElement('dialog');
    const id = `dialog-${++number}`;
    dialog.setAttribute('aria-labelledby', id);
    let value;
    const close = (given) => {
      value = given;
      dialog.close();
    };
    const update = () =>
      render(
        html`<div class="dialog-head">
            <h2 id=${id}>${title}</h2>
            <button type="button" class="icon-btn" aria-label=${t('common.close')} @click=${() => close()}>${icon('close')}</button>
          </div>
          ${body(close, update)}`,
        dialog,
      );
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(value);
    });
    dialog.addEventListener('mousedown', (event) => event.target === dialog && close());
    document.body.append(dialog);
    update();
    dialog.showModal();
    const first = /** @type {HTMLElement} */ (dialog.querySelector('[autofocus]') ?? dialog);
    first.focus();
  });
}

/**
 * Whether the person confirms.
 * @param {{title: string, text: unknown, confirm: string, danger?: boolean}} what
 */
export async function confirmed({ title, text, confirm, danger = false }) {
  const answer = await openDialog(
    title,
    (close) => html`<div class="dialog-body stack">${text}</div>
      <div class="dialog-foot">
        <button type="button" class="btn" autofocus @click=${() => close(false)}>${t('common.cancel')}</button>
        <button type="button" class="btn primary ${danger ? 'danger' : ''}" @click=${() => close(true)}>${confirm}</button>
      </div>`,
  );
  return answer === true;
}

/** Tells of a failure that has no place of its own. @param {Error & {code?: string}} error */
export function showError(error) {
  const text = errorText(error);
  return openDialog(
    t('common.failed'),
    (close) => html`<div class="dialog-body"><p>${text}</p>${error.code ? html`<p class="hint mono">${error.code}</p>` : nothing}</div>
      <div class="dialog-foot"><button type="button" class="btn primary" autofocus @click=${() => close()}>${t('common.close')}</button></div>`,
  );
}

/** @param {Error & {code?: string}} error */
export function errorText(error) {
  if (error.code === 'DISCONNECTED') return t('common.disconnected');
  if (error.code === 'STORE_FULL' || error.code === 'REVOKED') return t(`v.error.${error.code}`);
  return error.message || String(error);
}
