/** One tool of a server: what the server says of it, what a person said of it, and the form to say it. */
import { html, nothing } from 'lit';
import { live } from 'lit/directives/live.js';
import { api } from '../api.js';
import { errorText } from '../dialog.js';
import { t, translated } from '../i18n.js';
import { icon, joined, time } from '../views/components.js';

export const EFFECTS = ['read', 'write', 'exec', 'special'];
const GROUPS = ['mcp', 'code', 'memory', 'world', 'media', 'ui'];
const HASH_CHARS = 12;
const TONES = { classed: 'ok', changed: 'denied', unusable: 'error' };
/** Only what reads may be used beside coding. */
const ALONE = 'coding';

/** What the form begins with: what was said before. The server's own hint never fills it in. @param {any} tool */
export function emptyToolClass(tool) {
  return { effect: tool.class?.effect ?? '', modes: tool.class?.modes ?? [], group: tool.class?.group ?? 'mcp', wrong: '', error: null };
}

export function toolView(tool, context) {
  const canClass = tool.state !== 'unusable' && tool.state !== 'gone';
  return html`<li class="card s-tool state-${tool.state}" data-tool=${tool.tool} data-state=${tool.state}>
    <div class="s-card-head"><h3 class="grow mono">${tool.tool}</h3><span class="badge ${TONES[tool.state] ?? ''}">${t(`servers.state.${tool.state}`)}</span></div>
    ${tool.state === 'changed' ? changedView(tool, context) : nothing}
    ${tool.problem ? html`<p class="notice error">${icon('error')}<span>${translated(tool.problem)}</span></p>` : nothing}
    ${tool.description ? html`<p class="s-words"><span class="hint">${t('servers.own_words')}</span> <q>${tool.description}</q></p>` : nothing}
    ${hintsView(tool)}
    ${schemaView(tool)}
    ${classView(tool)}
    ${context.form ? classForm(tool, context) : html`<div class="row wrap">
      ${canClass ? html`<button type="button" class="btn ${tool.state === 'classed' ? '' : 'primary'}" @click=${context.open}>${t(BUTTONS[tool.state])}</button>` : nothing}
      ${tool.class ? html`<button type="button" class="btn danger" @click=${context.unclass}>${t('servers.unclass')}</button>` : nothing}
    </div>`}
  </li>`;
}

const BUTTONS = { unclassed: 'servers.class_it', changed: 'servers.class_again', classed: 'servers.class_change' };

function changedView(tool, { changed }) {
  return html`<div class="notice denied">${icon('warn')}<div>
    <p><strong>${t('servers.changed')}</strong> ${t('servers.changed_text')}</p>
    ${changed ? html`<p class="small">${t('servers.changed_when')} ${time(changed.time_us)}</p>` : nothing}
    ${tool.changes.length ? changesView(tool)
      : html`<p class="small">${t('servers.changed_hash', { from: (tool.class?.hash ?? '').slice(0, HASH_CHARS), to: tool.hash.slice(0, HASH_CHARS) })}</p>`}
  </div></div>`;
}

const MARKS = { '+': 'added', '-': 'removed', '@': 'hint' };

/** What differs from the definition that was classified; the server of Interlock made invisible characters visible. @param {any} tool */
export function changesView({ changes }) {
  return changes.map(({ field, diff }) => html`<p class="small">${t(`servers.field.${field}`)}</p>
    <pre class="s-text s-diff" tabindex="0" aria-label=${t(`servers.field.${field}`)}>${diff.map((line) => html`<span class=${MARKS[line[0]] ?? ''}>${line}</span>${'\n'}`)}</pre>`);
}

/** Never more than a claim, and said so. */
export function hintsView({ hints, title }) {
  const named = title ? html`<span class="hint">${t('servers.own_title')}</span> <q>${title}</q>` : nothing;
  const said = Object.entries(hints).map(([name, value]) => t(`servers.hint.${name}.${value ? 'yes' : 'no'}`));
  if (!said.length) return html`<p class="small muted">${t('servers.says_nothing')} ${named}</p>`;
  return html`<p class="small s-hints"><span class="badge warn">${t('servers.claim')}</span> ${t('servers.says', { what: joined(said) })} ${named}</p>`;
}

export function schemaView({ schema }) {
  const fields = Object.entries(schema?.properties ?? {});
  const required = new Set(schema?.required ?? []);
  return html`<div class="s-schema">
    ${fields.length ? html`<p class="small"><span class="hint">${t('servers.takes')}</span></p>
      <ul class="small">${fields.map(([name, about]) => html`<li><code>${name}</code> <span class="muted">${typeWords(about)}${required.has(name) ? ` · ${t('question.is_required')}` : ''}</span>
        ${about?.description ? html`<q>${about.description}</q>` : nothing}</li>`)}</ul>`
      : html`<p class="small hint">${t('servers.takes_nothing')}</p>`}
    <details class="small"><summary>${t('servers.whole_schema')}</summary><pre class="s-text" tabindex="0" aria-label=${t('servers.whole_schema')}>${JSON.stringify(schema, null, 2)}</pre></details>
  </div>`;
}

function typeWords(about) {
  if (Array.isArray(about?.enum)) return about.enum.map(String).join(' | ');
  return [about?.type ?? ''].flat().join(' | ');
}

function classView(tool) {
  const given = tool.class;
  if (!given) return html`<p class="s-class">${icon('denied')}<span>${t(tool.state === 'unclassed' ? 'servers.not_classed' : 'servers.no_class')}</span></p>`;
  const words = t(tool.state === 'classed' ? 'servers.is_classed' : 'servers.was_classed', { effect: t(`servers.effect.${given.effect}`), modes: joined(given.modes), by: given.by });
  return html`<p class="s-class">${icon(tool.state === 'classed' ? 'check' : 'denied')}<span>${words}
    ${given.vouched ? html`<strong>${t('servers.vouched')}</strong>` : nothing}
    ${tool.state === 'classed' ? html`${t('servers.called')} <code>${tool.name}</code>` : nothing}</span></p>`;
}

// -- the form ------------------------------------------------------------------------------------------------

/** The modes that can be given from here: open ones, which the server's own walls fit. */
export function givable(server, effect) {
  const open = api.info?.open_modes ?? [];
  return server.modes.filter((mode) => open.includes(mode) && (effect === 'read' || mode === ALONE));
}

function classForm(tool, context) {
  const { server, form, busy, edit, close, allow } = context;
  const all = givable(server, 'read');
  if (!all.length) {
    return html`<div class="notice warn">${icon('warn')}<p class="grow">${t('servers.no_modes', { modes: joined(server.modes, 'disjunction') })}</p>
      <button type="button" class="btn tiny" @click=${close}>${t('common.close')}</button></div>`;
  }
  const submit = (event) => {
    event.preventDefault();
    const modes = form.modes.filter((mode) => givable(server, form.effect).includes(mode));
    if (!form.effect || !modes.length) edit({ wrong: t(form.effect ? 'servers.choose_modes' : 'servers.choose_effect') });
    else allow({ ...form, modes });
  };
  const id = `class-${tool.hash.slice(0, HASH_CHARS)}`;
  return html`<form class="s-form stack" novalidate aria-label=${t('servers.class_form', { tool: tool.tool })} @submit=${submit}>
    ${effectChoice(id, form, edit)}
    ${modeChoice(server, form, edit, all)}
    <div class="field"><label for="${id}-group">${t('servers.group')}</label>
      <select id="${id}-group" @change=${(event) => edit({ group: event.target.value })}>
        ${GROUPS.map((group) => html`<option value=${group} .selected=${live(form.group === group)}>${t(`v.group.${group}`)}</option>`)}
      </select><p class="hint">${t('servers.group_hint')}</p></div>
    <p class="hint">${t('servers.pinned', { hash: tool.hash.slice(0, HASH_CHARS) })}</p>
    ${form.wrong || form.error ? html`<p class="field-error" role="alert">${icon('error')}<span>${form.wrong || errorText(form.error)}</span></p>` : nothing}
    <div class="row wrap"><button class="btn primary" ?disabled=${busy}>${t('servers.save')}</button>
      <button type="button" class="btn" @click=${close}>${t('common.cancel')}</button></div>
  </form>`;
}

function effectChoice(id, form, edit) {
  return html`<fieldset class="modes"><legend>${t('servers.effect')}</legend>
    ${EFFECTS.map((effect) => html`<label class="choice">
      <input type="radio" name="${id}-effect" value=${effect} .checked=${live(form.effect === effect)} @change=${() => edit({ effect, wrong: '' })} />
      <span>${t(`servers.effect.${effect}`)}<span class="hint">${t(`servers.effect.${effect}.hint`)}</span></span></label>`)}
  </fieldset>`;
}

function modeChoice(server, form, edit, all) {
  const fits = givable(server, form.effect || 'read');
  const toggle = (mode, on) => edit({ modes: on ? [...form.modes, mode] : form.modes.filter((each) => each !== mode), wrong: '' });
  return html`<fieldset class="modes"><legend>${t('servers.in_modes')}</legend>
    ${all.map((mode) => html`<label class="choice">
      <input type="checkbox" value=${mode} ?disabled=${!fits.includes(mode)} .checked=${live(form.modes.includes(mode) && fits.includes(mode))}
        @change=${(event) => toggle(mode, event.target.checked)} />
      <span class="mono">${mode}</span></label>`)}
    <p class="hint">${t(form.effect && form.effect !== 'read' ? 'servers.only_coding' : 'servers.in_modes_hint')}</p>
  </fieldset>`;
}
