/** Getting in: a code from the link becomes a cookie, once. */
import { html, nothing } from 'lit';
import { api } from '../api.js';
import { codeBlock } from '../markdown.js';
import { icon, logo } from '../icons.js';
import { t } from '../i18n.js';

const TRIES = 5;
const AGAIN_MS = 1000;

/**
 * Uses the code in the address, if there is one. The code is gone from the address before anything else happens.
 * @returns {Promise<''|'used'|'many'|'down'>} what went wrong
 */
export async function enter() {
  const found = /^#code=(.+)$/.exec(location.hash);
  if (!found) return '';
  history.replaceState(null, '', location.pathname);
  try {
    const body = JSON.stringify({ code: decodeURIComponent(found[1]) });
    for (let tries = 1; tries <= TRIES; tries++) {
      const answer = await fetch('/login', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
      if (answer.ok) return '';
      if (answer.status !== 429) return 'used';
      // Others try too; the code was not looked at and is still good.
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
    return 'many';
  } catch {
    return 'down';
  }
}

export async function leave() {
  try {
    await fetch('/logout', { method: 'POST' });
  } finally {
    api.disconnect();
    api.connect();
  }
}

/** @param {''|'used'|'many'|'down'|undefined} problem */
export function loginPage(problem) {
  return html`<main class="login" id="main">
    <div class="login-card stack">
      <div class="row">${logo()}<h1>Interlock</h1></div>
      ${problem ? html`<div class="notice warn" role="alert">${icon('warn')}<p>${t(`login.${problem}`)}</p></div>` : nothing}
      <p>${t('login.how')}</p>
      ${codeBlock('interlock token link', t('login.shell'))}
      <p class="muted small">${t('login.why')}</p>
      <button type="button" class="btn" @click=${() => api.connect()}>${icon('retry')}${t('common.retry')}</button>
    </div>
  </main>`;
}
