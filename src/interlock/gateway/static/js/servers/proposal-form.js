/** One form for all tools of a server that wait for a class, filled in with what its own claims propose. */
import { html, nothing } from 'lit';
import { live } from 'lit/directives/live.js';
import { errorText } from '../dialog.js';
import { t } from '../i18n.js';
import { icon } from '../views/components.js';
import { EFFECTS, changesView, givable, hintsView, schemaView } from './tool-view.js';

const WAITING = ['unclassed', 'changed'];

/** @param {any} found */
export function waitingTools(found) {
  return found.offered.filter(({ state }) => WAITING.includes(state));
}

/** What the form begins with. Each row keeps the hash of the definition that is shown. @param {any} server @param {any} found */
export function proposalForm(server, found) {
  const rows = waitingTools(found).map((tool) => {
    const effect = tool.proposal?.effect ?? '';
    const modes = givable(server, effect).filter((mode) => tool.proposal?.modes.includes(mode));
    return [tool.tool, { hash: tool.hash, group: tool.proposal?.group ?? 'mcp', effect, modes, included: modes.length > 0 }];
  });
  return { rows: Object.fromEntries(rows), wrong: '', error: null };
}

/** The parameters of one request for all that is ticked. @param {any} server @param {any} form */
export function confirmedTools(server, form) {
  return Object.entries(form.rows).filter(([, row]) => row.included).map(([tool, { hash, group, effect, modes }]) => (
    { tool, hash, group, effect, modes: modes.filter((mode) => givable(server, effect).includes(mode)) }));
}

/** @param {any} context */
export function proposalView({ server, found, form, busy, edit, confirm, close }) {
  const chosen = confirmedTools(server, form);
  const submit = (event) => {
    event.preventDefault();
    const unset = chosen.find(({ effect, modes }) => !effect || !modes.length);
    if (!chosen.length) edit({ wrong: t('servers.all_none') });
    else if (unset) edit({ wrong: t('servers.all_unset', { tool: unset.tool }) });
    else confirm(chosen);
  };
  const change = (tool, part) => edit({ wrong: '', error: null, rows: { ...form.rows, [tool]: { ...form.rows[tool], ...part } } });
  return html`<form class="s-form card stack" novalidate aria-label=${t('servers.all_form')} @submit=${submit}>
    <p class="notice warn">${icon('warn')}<span>${t('servers.all_claims')}</span></p>
    ${waitingTools(found).filter(({ tool }) => form.rows[tool]).map((tool, number) => toolRow(server, tool, form.rows[tool.tool], `all-${number}`, (part) => change(tool.tool, part)))}
    ${form.wrong || form.error ? html`<p class="field-error" role="alert">${icon('error')}<span>${form.wrong || errorText(form.error)}</span></p>` : nothing}
    <div class="row wrap"><button class="btn primary" ?disabled=${busy}>${t('servers.all_confirm', { n: chosen.length })}</button>
      <button type="button" class="btn" @click=${close}>${t('common.cancel')}</button></div>
  </form>`;
}

function toolRow(server, tool, given, id, change) {
  const fits = givable(server, given.effect || 'read');
  const toggle = (mode, on) => change({ modes: on ? [...given.modes, mode] : given.modes.filter((each) => each !== mode) });
  return html`<fieldset class="s-row" data-row=${tool.tool}><legend><label class="choice">
      <input type="checkbox" .checked=${live(given.included)} @change=${(event) => change({ included: event.target.checked })} />
      <span class="mono">${tool.tool}</span></label></legend>
    ${tool.description ? html`<p class="small s-words"><span class="hint">${t('servers.own_words')}</span> <q>${tool.description}</q></p>` : nothing}
    ${hintsView(tool)}
    ${changesView(tool)}
    <details class="small"><summary>${t('servers.takes')}</summary>${schemaView(tool)}</details>
    ${tool.proposal ? nothing : html`<p class="small">${t('servers.all_undecided')}</p>`}
    <div class="row wrap"><label for="${id}-effect">${t('servers.effect')}</label>
      <select id="${id}-effect" ?disabled=${!given.included} @change=${(event) => change({ effect: event.target.value })}>
        <option value="" .selected=${live(!given.effect)}>–</option>
        ${EFFECTS.map((effect) => html`<option value=${effect} .selected=${live(given.effect === effect)}>${t(`servers.effect.${effect}`)}</option>`)}
      </select>
      ${givable(server, 'read').map((mode) => html`<label class="choice">
        <input type="checkbox" value=${mode} ?disabled=${!given.included || !fits.includes(mode)} .checked=${live(given.modes.includes(mode) && fits.includes(mode))}
          @change=${(event) => toggle(mode, event.target.checked)} /><span class="mono">${mode}</span></label>`)}
      <span class="hint">${t('servers.all_pinned', { hash: given.hash.slice(0, 12) })}</span></div>
  </fieldset>`;
}
