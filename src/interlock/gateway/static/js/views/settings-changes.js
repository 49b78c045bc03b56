/** "Preview": the fields that differ, and the cells of the matrix that change. */
import { html, nothing } from 'lit';
import { inLanguage, t, translated } from '../i18n.js';
import { icon, joined, problem } from './components.js';
import { differences } from './policy-matrix-data.js';
import { amount, chosen } from './settings-fields.js';

export function renderChanges({ list, wrong, before, after, fault }) {
  if (fault) return problem(fault);
  if (Object.keys(wrong).length) return html`<p class="muted" role="status">${t('settings.effect_wrong')}</p>`;
  if (!list.length) return html`<p class="muted">${t('settings.effect_none')}</p>`;
  return html`
    <ul class="v-changes">
      ${list.map(({ field, from, to }) => html`<li>
        <span>${inLanguage(field.label)}</span>
        <span class="v-fromto"><del>${said(field, from)}</del> ${icon('arrow')}<span class="sr-only">${t('settings.becomes')}</span>
          <ins>${said(field, to)}</ins></span>
      </li>`)}
    </ul>
    <div aria-live="polite">${after && before ? effect(differences(before, after)) : nothing}</div>`;
}

function said(field, value) {
  const { type } = field;
  if (type === 'choice') return chosen(field, value);
  if (type === 'switch') return t(value ? 'settings.on' : 'settings.off');
  if (type === 'tools') return value?.length ? joined(value) : t('settings.none');
  if (type === 'servers') return value ? joined(value) || t('settings.none') : t('settings.unset');
  if (value === null) return t('settings.no_limit');
  return type === 'ports' ? value.join(', ') || t('settings.none') : amount(type, value);
}

function effect(turned) {
  if (!turned.length) return html`<p class="hint">${t('settings.effect_no_cell')}</p>`;
  const lost = turned.filter(({ lost: { open, closed } }) => open.length + closed.length);
  const gained = turned.filter(({ gained: { open, closed } }) => open.length + closed.length);
  return html`
    ${side(lost, 'lost', 'cross')}
    ${side(gained, 'gained', 'check')}`;
}

/** Tools that turn in the same modes are told together. */
function side(turned, which, sign) {
  if (!turned.length) return nothing;
  const groups = new Map();
  for (const item of turned) {
    const key = where(item[which], which);
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return html`<h3 class="v-turned-head is-${which}">${icon(sign)}${t(`settings.${which}`, { n: turned.length })}</h3>
    <ul class="v-turned">
      ${[...groups].map(([words, items]) => html`<li>
        <span>${words}</span>
        <ul class="v-turned-tools">${items.map((item) => html`<li><a href="#/authority/${item.tool}"
          title=${translated(item[which].message)}><code>${item.tool}</code></a></li>`)}</ul>
      </li>`)}
    </ul>`;
}

function where({ open, closed }, which) {
  const now = open.length ? t(`settings.${which}_in`, { modes: joined(open) }) : '';
  const then = closed.length ? t(`settings.${which}_closed`, { modes: joined(closed) }) : '';
  return [now, then].filter(Boolean).join(t('settings.and_also'));
}
