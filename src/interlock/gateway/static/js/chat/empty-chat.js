/** A chat that has not begun: the tour in three sentences, and something to try. */
import { html, nothing } from 'lit';
import { icon, logo } from '../icons.js';
import { t } from '../i18n.js';

const EXAMPLES = ['time', 'read', 'list'];

/** @param {{isFirst: boolean, dismiss(): void, send(text: string): void, off: boolean}} context */
export function emptyChatView({ isFirst, dismiss, send, off }) {
  return html`<div class="welcome">
    <div class="welcome-mark">${logo()}</div>
    <h1>${t(isFirst ? 'welcome.first' : 'welcome.again')}</h1>
    ${isFirst
      ? html`<ol class="tour">
          <li>${icon('chat')}<p>${t('tour.1')}</p></li>
          <li>${icon('authority')}<p>${t('tour.2')}</p></li>
          <li>${icon('activity')}<p>${t('tour.3')}</p></li>
        </ol>`
      : html`<p class="muted">${t('welcome.text')}</p>`}
    <div class="examples" role="group" aria-label=${t('welcome.try')}>
      <p class="label">${t('welcome.try')}</p>
      ${EXAMPLES.map(
        (name) => html`<button type="button" class="example" ?disabled=${off} @click=${() => send(t(`example.${name}`))}>
          <span>${t(`example.${name}`)}</span><span class="hint">${t(`example.${name}.about`)}</span>
        </button>`,
      )}
    </div>
    ${isFirst ? html`<button type="button" class="link-btn small" @click=${dismiss}>${t('tour.dismiss')}</button>` : nothing}
  </div>`;
}
