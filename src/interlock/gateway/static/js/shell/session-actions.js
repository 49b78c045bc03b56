/** What can be done with a whole session; the same in the side bar and in the head of the chat. */
import { html } from 'lit';
import { api } from '../api.js';
import { confirmed, showError } from '../dialog.js';
import { kept, store } from '../session-store.js';
import { t } from '../i18n.js';

/** @param {any} session */
export function sessionTitle(session) {
  return session?.title || t('sessions.untitled');
}

/** @param {any} session @param {() => void} rename @returns {import('../menu.js').MenuItem[]} */
export function sessionMenuItems(session, rename) {
  return [
    { label: t('sessions.rename'), icon: 'rename', run: rename },
    { label: t('sessions.export'), icon: 'download', run: () => exportSession(session) },
    session.archived
      ? { label: t('sessions.unarchive'), icon: 'unarchive', run: () => archive(session, false) }
      : { label: t('sessions.archive'), icon: 'archive', run: () => archive(session, true) },
    { label: t('sessions.delete'), icon: 'trash', danger: true, run: () => remove(session) },
  ];
}

async function exportSession(session) {
  try {
    const { url } = await api.request('session.export', { session_id: session.id });
    const link = document.createElement('a');
    link.href = url;
    link.download = '';
    document.body.append(link);
    link.click();
    link.remove();
  } catch (error) {
    showError(error);
  }
}

async function archive(session, archived) {
  try {
    store.put((await api.request('session.archive', { session_id: session.id, archived })).session);
  } catch (error) {
    showError(error);
  }
}

async function remove(session) {
  const sure = await confirmed({
    title: t('delete.title', { title: sessionTitle(session) }),
    text: html`<p>${t('delete.what')}</p><p>${t('delete.stays', { id: session.id })}</p>`,
    confirm: t('sessions.delete'),
    danger: true,
  });
  if (!sure) return;
  try {
    await api.request('session.delete', { session_id: session.id });
    kept.set(`draft.${session.id}`, '');
    store.drop(session.id);
    const [, view, shown] = location.hash.split('/');
    if (shown === session.id) location.hash = view === 'runs' ? '#/workflows' : `#/${view}`;
  } catch (error) {
    showError(error);
  }
}
