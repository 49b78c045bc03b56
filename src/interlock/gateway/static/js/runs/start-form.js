/** What a run is begun with: what it is for, the mode that nothing in it goes above, and the model. */
import { html, nothing } from 'lit';
import { live } from 'lit/directives/live.js';
import { api } from '../api.js';
import { errorText } from '../dialog.js';
import { modelNames } from '../session-store.js';
import { hasText, t } from '../i18n.js';
import { icon } from '../views/components.js';

const MOST_CHARS = 50_000;

/**
 * @param {{form: {input: string, mode: string, model: string}, modes: string[], wrong: any, busy: boolean,
 *   edit(change: object): void, submit(event: Event): void}} context
 */
export function startForm({ form, modes, wrong, busy, edit, submit }) {
  return html`<form class="card stack r-start" novalidate aria-labelledby="run-start" @submit=${submit}>
    <h2 id="run-start">${t('runs.start')}</h2>
    <div class="field">
      <label for="run-input">${t('runs.input')}</label>
      <textarea id="run-input" rows="3" maxlength=${MOST_CHARS} .value=${live(form.input)} aria-describedby="run-input-hint"
        @input=${(event) => edit({ input: event.target.value })}></textarea>
      <p class="hint" id="run-input-hint">${t('runs.input_hint')}</p>
    </div>
    ${modeChoice(form, modes, wrong, edit)}
    ${modelChoice(form, edit)}
    ${wrong?.error ? html`<div class="notice error" role="alert">${icon('error')}<p>${errorText(wrong.error)}</p></div>` : nothing}
    <div><button class="btn primary" ?disabled=${busy}>${t('runs.start_button')}</button></div>
  </form>`;
}

function modeChoice(form, modes, wrong, edit) {
  if (modes.length < 2) return html`<p class="hint">${t('runs.only_mode', { mode: modes[0] ?? 'chat_safe' })}</p>`;
  return html`<fieldset class="modes" aria-describedby=${wrong?.mode ? 'run-mode-wrong' : nothing}>
    <legend>${t('runs.mode')}</legend>
    <p class="hint">${t('runs.mode_hint')}</p>
    ${modes.map((name) => html`<label class="choice">
      <input type="radio" name="mode" value=${name} .checked=${live(form.mode === name)} aria-invalid=${wrong?.mode ? 'true' : nothing}
        @change=${() => edit({ mode: name })} />
      <span><strong class="mono">${name}</strong>${hasText(`mode.for.${name}`) ? html`<span class="hint">${t(`mode.for.${name}`)}</span>` : nothing}</span>
    </label>`)}
    ${wrong?.mode ? html`<p class="field-error" id="run-mode-wrong" role="alert">${icon('error')}<span>${wrong.mode}</span></p>` : nothing}
  </fieldset>`;
}

function modelChoice(form, edit) {
  const names = modelNames();
  if (names.length < 2) return nothing;
  return html`<div class="field">
    <label for="run-model">${t('model.label')}</label>
    <select id="run-model" @change=${(event) => edit({ model: event.target.value })}>
      <option value="" .selected=${live(!form.model)}>${t('model.usual_is', { model: api.info?.usual_model ?? '' })}</option>
      ${names.map((name) => html`<option value=${name} .selected=${live(form.model === name)}>${name}</option>`)}
    </select>
  </div>`;
}
