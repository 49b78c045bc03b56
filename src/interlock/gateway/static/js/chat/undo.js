/** Taking back what a task did to files, and telling what was and what was not. */
import { html, nothing } from 'lit';
import { confirmed, openDialog, tellError } from '../dialog.js';
import { icon } from '../icons.js';
import { t } from '../texts.js';

/** @param {object} task @param {(id: string) => Promise<{undo_id: string, restored: string[], left: {path: string, reason: string}[]}>} undo */
export async function undoTask(task, undo) {
  const sure = await confirmed({
    title: t('undo.title'),
    text: html`<p>${t('undo.what')}</p><p class="hint">${t('undo.safe')}</p>`,
    confirm: t('undo.button'),
  });
  if (!sure) return;
  try {
    await report(await undo(task.id));
  } catch (error) {
    await (error.code === 'NOTHING_TO_UNDO' ? report({ restored: [], left: [] }) : tellError(error));
  }
}

function report({ undo_id: id = '', restored = [], left = [] }) {
  return openDialog(
    t('undo.title'),
    (close) => html`<div class="dialog-body stack undo-report">
        ${restored.length
          ? html`<section><h3>${icon('check')} ${t('undo.restored', { n: restored.length })}</h3><ul>${restored.map((path) => html`<li><code>${path}</code></li>`)}</ul></section>`
          : nothing}
        ${left.length
          ? html`<section><h3>${icon('warn')} ${t('undo.left', { n: left.length })}</h3><ul>${left.map(({ path, reason }) => html`<li><code>${path}</code><p class="hint">${reason}</p></li>`)}</ul></section>`
          : nothing}
        ${restored.length ? html`<p class="hint">${t('undo.again')}</p><pre class="command" tabindex="0">interlock undo ${id}</pre>` : nothing}
        ${restored.length || left.length ? nothing : html`<p>${t('undo.nothing')}</p>`}
      </div>
      <div class="dialog-foot"><button type="button" class="btn primary" autofocus @click=${() => close()}>${t('common.close')}</button></div>`,
  );
}
