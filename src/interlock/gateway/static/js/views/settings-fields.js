/** One field of the settings: its control, its default, and what the operator allows. */
import { html, nothing } from 'lit';
import { live } from 'lit/directives/live.js';
import { formatBytes, formatNumber, inLanguage, t } from '../i18n.js';
import { icon, joined } from './components.js';
import { formatLimits } from './policy-matrix-data.js';
import { ceilingAt, controlId, parsed, shown, valueAt } from './settings-form.js';

/**
 * @param {import('./settings-form.js').Field} described
 * @param {{raw: any, stored: any, wrong?: string, tools: any[], servers: string[], limits: any, set: (value: any) => void}} state
 */
export function renderField(described, state) {
  const field = { ...described, id: controlId(described) };
  const draw = { switch: toggle, choice, tools, servers }[field.type] ?? line;
  const limit = ceilingAt(state.stored.ceiling, field.path);
  const isTouched = state.raw !== shown(field.type, valueAt(state.stored.settings, field.path));
  return draw(field, { ...state, limit, isTouched, initial: valueAt(state.stored.defaults, field.path) });
}

/** As the server takes it. */
const SERVER_ID = /^[a-z0-9-]{1,20}$/;

const label = (field) => inLanguage(field.label);
const hint = (field, limits) => inLanguage(field.hint, formatLimits(limits));

/** The words for a choice. */
export function chosen(field, value) {
  return inLanguage(field.choices.find((each) => each.value === value)?.label ?? { en: value, zh: value });
}

function toggle(field, { raw, initial, limit, limits, isTouched, wrong, set }) {
  return html`<div class="v-field">
    <label class="v-toggle">
      <input type="checkbox" id=${field.id} .checked=${live(raw)} aria-describedby="${field.id}-hint"
        aria-invalid=${wrong ? 'true' : nothing} @change=${(event) => set(event.target.checked)} />
      <span class="v-label">${label(field)}</span>
      <span class="badge">${t('settings.default', { value: t(initial ? 'settings.on' : 'settings.off') })}</span>
    </label>
    <div id="${field.id}-hint" class="v-under">
      <p class="hint">${hint(field, limits)}</p>
      ${limit === false ? ceiling(t(raw ? 'settings.ceiling.off_but_on' : 'settings.ceiling.off'), raw && isTouched) : nothing}
      ${mistake(wrong)}
    </div>
  </div>`;
}

function line(field, { raw, initial, limit, limits, isTouched, wrong, set }) {
  const { value } = parsed(field.type, raw);
  const more = value === undefined ? '' : inWords(field.type, value);
  return html`<div class="v-field">
    <div class="v-line">
      <label class="v-label" for=${field.id}>${label(field)}</label>
      <span class="badge">${defaultText(field.type, initial, limit)}</span>
    </div>
    <div class="v-input">
      <input type="text" id=${field.id} inputmode=${field.type === 'ports' ? 'text' : 'decimal'} autocomplete="off"
        spellcheck="false" .value=${live(raw)} placeholder=${placeholder(field.type, initial)}
        aria-describedby="${field.id}-hint" aria-invalid=${wrong ? 'true' : nothing}
        @input=${(event) => set(event.target.value)} />
      <output for=${field.id} class="v-words">${more}</output>
    </div>
    <div id="${field.id}-hint" class="v-under">
      <p class="hint">${hint(field, limits)} ${raw.trim() ? '' : t('settings.empty')}</p>
      ${limitNote(field.type, raw.trim() ? value : initial, limit, isTouched)}
      ${mistake(wrong)}
    </div>
  </div>`;
}

function choice(field, { raw, initial, limit, limits, isTouched, wrong, set }) {
  const order = field.choices.map(({ value }) => value);
  const isBeyond = limit !== null && order.indexOf(raw) < order.indexOf(limit);
  return html`<div class="v-field">
    <div class="v-line">
      <label class="v-label" for=${field.id}>${label(field)}</label>
      <span class="badge">${t('settings.default', { value: chosen(field, initial) })}</span>
    </div>
    <div class="v-input">
      <select id=${field.id} aria-describedby="${field.id}-hint" aria-invalid=${wrong ? 'true' : nothing}
        .value=${live(raw)} @change=${(event) => set(event.target.value)}>
        ${order.map((value) => html`<option value=${value} ?selected=${value === raw}>${chosen(field, value)}</option>`)}
      </select>
    </div>
    <div id="${field.id}-hint" class="v-under">
      <p class="hint">${hint(field, limits)}</p>
      ${limit === null ? nothing : ceiling(
        t(isBeyond ? 'settings.ceiling.choice_beyond' : 'settings.ceiling.choice', { limit: chosen(field, limit) }),
        isBeyond && isTouched,
      )}
      ${mistake(wrong)}
    </div>
  </div>`;
}

/** The groups and effects that tools have, as they are named in the list of denied tools. */
function kindsOf(known) {
  const all = (name) => [...new Set(known.map((tool) => `${name}:${tool[name]}`))].sort();
  return [...all('group'), ...all('effect')];
}

function tools(field, { raw, limit, limits, wrong, tools: known, set }) {
  const locked = new Set(limit ?? []);
  const kinds = kindsOf(known);
  const names = [...new Set([...known.map((tool) => tool.name), ...raw, ...locked])]
    .filter((name) => !kinds.includes(name)).sort().concat(kinds);
  const turn = (name) => set(raw.includes(name) ? raw.filter((other) => other !== name) : [...raw, name].sort());
  return html`<div class="v-field" role="group" aria-labelledby="${field.id}-label" aria-describedby="${field.id}-hint">
    <div class="v-line">
      <span class="v-label" id="${field.id}-label">${label(field)}</span>
      <span class="badge">${t('settings.default', { value: t('settings.none') })}</span>
    </div>
    <p class="hint" id="${field.id}-hint">${hint(field, limits)}</p>
    <div class="v-chips">
      ${names.map((name, n) => locked.has(name)
        ? html`<span class="chip v-locked" title=${t('settings.locked')}>${icon('lock')}<code>${name}</code>
            <span class="sr-only">${t('settings.locked')}</span></span>`
        : html`<button type="button" class="chip v-deny" id=${n ? nothing : field.id}
            aria-pressed=${raw.includes(name) ? 'true' : 'false'} @click=${() => turn(name)}
            >${raw.includes(name) ? icon('cross') : nothing}<code>${name}</code></button>`)}
    </div>
    ${locked.size ? ceiling(t('settings.ceiling.denied', { tools: joined([...locked].sort()) })) : nothing}
    ${mistake(wrong)}
  </div>`;
}

/** A list of names: those of the servers that are configured are offered, any other can be written. */
function servers(field, { raw, limit, wrong, servers: known, limits, set }) {
  const listed = raw ?? [];
  const names = [...new Set([...known, ...listed])].sort();
  const turn = (name) => set(listed.includes(name) ? listed.filter((other) => other !== name) : [...listed, name].sort());
  const add = (input) => {
    const name = input.value.trim();
    input.setCustomValidity(!name || SERVER_ID.test(name) ? '' : t('settings.servers.wrong'));
    if (!input.reportValidity() || !name) return;
    input.value = '';
    if (!listed.includes(name)) set([...listed, name].sort());
  };
  const enter = (event) => {
    if (event.key !== 'Enter') return;
    // It adds the name, and does not save.
    event.preventDefault();
    add(event.target);
  };
  const beyond = limit !== null && listed.some((name) => !limit.includes(name));
  return html`<div class="v-field" role="group" aria-labelledby="${field.id}-label" aria-describedby="${field.id}-hint">
    <div class="v-line">
      <span class="v-label" id="${field.id}-label">${label(field)}</span>
      <span class="badge">${t('settings.default', { value: t('settings.unset') })}</span>
    </div>
    <p class="hint" id="${field.id}-hint">${hint(field, limits)}</p>
    <div class="v-chips">
      ${names.map((name) => html`<button type="button" class="chip v-admit" aria-pressed=${listed.includes(name) ? 'true' : 'false'}
        @click=${() => turn(name)}>${listed.includes(name) ? icon('check') : nothing}<code>${name}</code></button>`)}
    </div>
    <div class="v-input">
      <input type="text" id=${field.id} autocomplete="off" spellcheck="false" aria-label=${t('settings.servers.name')}
        aria-describedby="${field.id}-hint" placeholder=${t('settings.servers.name')} @keydown=${enter}
        @input=${(event) => event.target.setCustomValidity('')} />
      <button type="button" class="btn" @click=${(event) => add(event.target.previousElementSibling)}>${t('settings.servers.add')}</button>
      ${raw ? html`<button type="button" class="btn ghost" @click=${() => set(null)}>${t('settings.servers.unset')}</button>` : nothing}
    </div>
    <p class="v-under" role="status">${listed.length ? nothing : t(raw ? 'settings.servers.empty' : limit === null ? 'settings.servers.none_set' : 'settings.servers.not_set')}</p>
    ${limit === null ? nothing : ceiling(limit.length
      ? t(beyond ? 'settings.ceiling.servers_beyond' : 'settings.ceiling.servers', { servers: joined([...limit].sort()) })
      : t('settings.ceiling.no_servers'), beyond)}
    ${mistake(wrong)}
  </div>`;
}

function mistake(text) {
  return text ? html`<p class="field-error" role="alert">${icon('warn')}<span>${text}</span></p>` : nothing;
}

/** The operator's limit is shown as a fact, and as a warning if the value asks for more. */
function ceiling(text, strong = false) {
  return html`<p class="v-ceiling ${strong ? 'is-strong' : ''}">${icon('lock')}<span>${text}</span></p>`;
}

function limitNote(type, value, limit, isTouched) {
  if (limit === null) return nothing;
  if (type === 'ports') {
    const beyond = (value ?? []).filter((port) => !limit.includes(port));
    if (!limit.length) return ceiling(t('settings.ceiling.no_ports'), isTouched && Boolean(value?.length));
    const ports = joined(limit.map(String));
    return ceiling(t(beyond.length ? 'settings.ceiling.ports_beyond' : 'settings.ceiling.ports', { ports }), isTouched && beyond.length > 0);
  }
  const text = amount(type, limit);
  const beyond = typeof value === 'number' && value > limit;
  return ceiling(t(beyond ? 'settings.ceiling.beyond' : 'settings.ceiling.within', { limit: text }), isTouched && beyond);
}

/** A number with its unit: "524,288 (512 KiB)". */
export function amount(type, value) {
  if (type === 'bytes') return `${formatNumber(value)} (${formatBytes(value)})`;
  return t('settings.seconds', { n: value });
}

function inWords(type, value) {
  if (type === 'bytes') return formatBytes(value);
  return type === 'seconds' ? t('settings.seconds', { n: value }) : '';
}

function defaultText(type, initial, limit) {
  const value = initial === null
    ? t(limit === null ? 'settings.no_limit' : 'settings.operators')
    : type === 'ports' ? initial.join(', ') : amount(type, initial);
  return t('settings.default', { value });
}

function placeholder(type, initial) {
  if (initial === null) return type === 'ports' ? '80, 443' : '';
  return type === 'ports' ? initial.join(', ') : String(initial);
}
