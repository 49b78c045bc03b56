/** A message that the server has not confirmed yet. */
import { html } from 'lit';
import { errorText } from '../dialog.js';
import { icon } from '../icons.js';
import { t } from '../i18n.js';

/** @param {{content: string, error: (Error & {code?: string})|null}} message @param {{resend(): void, takeBack(): void}} act */
export function pendingMessageView({ content, error }, { resend, takeBack }) {
  const waits = error?.code === 'DISCONNECTED';
  return html`<article class="task pending">
    <div class="said"><div class="said-head"><span class="said-who">${t('task.you')}</span></div><div class="said-text" dir="auto">${content}</div></div>
    <div class="rail">
      ${error && !waits
        ? html`<div class="task-end notice error" role="alert">${icon('error')}<p class="grow">${t('chat.not_sent')} ${errorText(error)}</p>
            <button type="button" class="btn tiny" @click=${resend}>${t('common.retry')}</button>
            <button type="button" class="btn tiny" @click=${takeBack}>${t('chat.take_back')}</button></div>`
        : html`<div class="task-foot" role="status"><span class="spinner" aria-hidden="true"></span><span>${t(waits ? 'chat.will_send' : 'chat.sending')}</span></div>`}
    </div>
  </article>`;
}
