/** A server in words: how it is reached, how far its process may go, and what is missing before it can be used. */
import { html, nothing } from 'lit';
import { copyButton } from '../copy-button.js';
import { t, translated } from '../i18n.js';
import { icon, joined, time } from '../views/components.js';

export function stateBadges(server) {
  if (server.unavailable) return html`<span class="badge error">${icon('error')}${t('servers.unavailable')}</span>`;
  if (server.closed) return html`<span class="badge denied">${icon('denied')}${t('servers.closed')}</span>`;
  return html`<span class="badge ok">${icon('check')}${t('servers.may_be_used')}</span>`;
}

/** The sentences and commands are the server's own: they say what holds here, now. */
export function missingRequirements(server) {
  const reason = server.unavailable || server.closed;
  if (!reason) return nothing;
  return html`<div class="notice ${server.unavailable ? 'error' : 'denied'} s-missing">
    ${icon(server.unavailable ? 'error' : 'denied')}
    <div class="grow stack">
      <p><strong>${t(server.unavailable ? 'servers.cannot_run' : 'servers.not_let')}</strong> ${translated(reason)}</p>
      ${server.next.length ? html`<p>${t('servers.next')}</p>
        <ul class="s-commands">${server.next.map((command) => html`<li><code>${command}</code>${copyButton(() => command)}</li>`)}</ul>` : nothing}
    </div>
  </div>`;
}

export function serverFacts(server, found) {
  const row = (key, value) => (value ? html`<dt>${t(`servers.fact.${key}`)}</dt><dd>${value}</dd>` : nothing);
  const codes = (list) => (list.length ? html`${list.map((each) => html`<code>${each}</code> `)}` : '');
  return html`<dl class="v-facts s-facts">
    ${row('target', html`<code>${server.url || server.command.join(' ')}</code>`)}
    ${row('transport', t(`servers.transport.${server.transport}`))}
    ${server.transport === 'stdio' ? html`
      ${row('roots', t(`servers.roots.${server.roots}`))}
      ${row('network', t(server.network ? 'servers.network.yes' : 'servers.network.no'))}
      ${row('readable', codes(server.readable))}
      ${row('environment', codes(server.environment))}` : row('headers', codes(server.headers))}
    ${row('modes', html`${joined(server.modes)} <span class="hint">${t('servers.modes_why')}</span>`)}
    ${row('added', html`${server.added_by} · ${time(server.added_us)}`)}
    ${row('calls_itself', found?.calls_itself ? html`<q>${found.calls_itself}</q>` : '')}
    ${found?.instructions ? row('instructions', html`<details><summary>${t('servers.read')}</summary><pre class="s-text" tabindex="0" aria-label=${t('servers.fact.instructions')}>${found.instructions}</pre></details>`) : nothing}
  </dl>`;
}
