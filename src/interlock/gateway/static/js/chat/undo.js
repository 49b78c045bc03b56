/** Taking back what a task did to files, doing it again, and telling what was changed and what was not. */
import { html, nothing } from 'lit';
import { confirmed, openDialog, showError } from '../dialog.js';
import { icon } from '../icons.js';
import { t } from '../i18n.js';

/** @typedef {{undo_id: string, restored: string[], left: {path: string, reason: string}[]}} Report */
/** @typedef {{undo(taskId: string): Promise<Report>, redo(taskId: string, undoId: string): Promise<Report>}} Chat */

/** @param {{id: string}} task @param {Chat} chat */
export async function undoTask(task, chat) {
  const sure = await confirmed({
    title: t('undo.title'),
    text: html`<p>${t('undo.what')}</p><p class="hint">${t('undo.safe')}</p>`,
    confirm: t('undo.button'),
  });
  if (!sure) return;
  const undone = await reported('undo', () => chat.undo(task.id));
  if (undone) await redoTask(task.id, undone, chat);
}

/** @param {string} taskId @param {string} undoId @param {Chat} chat */
export async function redoTask(taskId, undoId, chat) {
  await reported('redo', () => chat.redo(taskId, undoId));
}

/** @returns the id of an undo that is to be redone at once */
async function reported(what, act) {
  try {
    return await report(what, await act());
  } catch (error) {
    await (error.code === 'NOTHING_TO_UNDO' ? report(what, {}) : showError(error));
    return '';
  }
}

function report(what, { undo_id: id = '', restored = [], left = [] }) {
  return openDialog(
    t(`${what}.title`),
    (close) => html`<div class="dialog-body stack undo-report">
        ${restored.length
          ? html`<section><h3>${icon('check')} ${t(`${what}.restored`, { n: restored.length })}</h3><ul>${restored.map((path) => html`<li><code>${path}</code></li>`)}</ul></section>`
          : nothing}
        ${left.length
          ? html`<section><h3>${icon('warn')} ${t('undo.left', { n: left.length })}</h3><ul>${left.map(({ path, reason }) => html`<li><code>${path}</code><p class="hint">${reason}</p></li>`)}</ul></section>`
          : nothing}
        ${restored.length || left.length ? nothing : html`<p>${t(`${what}.nothing`)}</p>`}
      </div>
      <div class="dialog-foot">
        ${what === 'undo' && restored.length ? html`<button type="button" class="btn" @click=${() => close(id)}>${icon('redo')}${t('redo.button')}</button>` : nothing}
        <button type="button" class="btn primary" autofocus @click=${() => close()}>${t('common.close')}</button>
      </div>`,
  );
}
