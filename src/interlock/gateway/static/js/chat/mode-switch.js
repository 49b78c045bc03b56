/** The mode: a chip that shows the server's truth, and what a switch would change before it is made. */
import { html, nothing } from 'lit';
import { api } from '../api.js';
import { errorText, openDialog } from '../dialog.js';
import { icon } from '../icons.js';
import { hasText, t } from '../i18n.js';

/** @param {string} mode @param {() => void} press */
export function modeChip(mode, press) {
  if (!mode) return nothing;
  const label = t('mode.chip_label', { mode });
  return html`<button type="button" class="chip mode mode-${mode}" title=${label} aria-label=${label} @click=${press}>
    ${icon('authority')}<span class="mode-word">${t('mode.word')}</span> <strong>${mode}</strong>
  </button>`;
}

/**
 * What the operator opened, and for the chosen mode what would change. Resolves with the mode that was confirmed.
 * `wanted` is the mode that is chosen at first, and `task` the one under way, where there is one.
 * @param {{mode: string, wanted: string, sessionId: string, task: import('./reducer.js').TaskEntry|null, apply: (mode: string) => Promise<void>}} about
 */
export function openModeDialog(about) {
  return api.info?.can_switch_modes ? openSwitch(about) : openExplanation(about);
}

const purpose = (mode) => (hasText(`mode.for.${mode}`) ? t(`mode.for.${mode}`) : '');

function openExplanation({ mode, wanted }) {
  return openDialog(
    t('mode.title'),
    (close) => html`<div class="dialog-body stack">
        <p>${t('mode.here')} <strong class="mono">${mode}</strong>. ${purpose(mode)}</p>
        ${notOpen(wanted)}
        <p>${t('mode.closed')}</p>
        <p>${t('mode.how_open')}</p>
        <pre class="command" tabindex="0">interlock serve --open chat,plan,coding</pre>
        <p class="hint">${t('mode.never_model')}</p>
      </div>
      <div class="dialog-foot">
        <a class="btn" href="#/authority" @click=${() => close()}>${t('mode.see_authority')}</a>
        <button type="button" class="btn primary" autofocus @click=${() => close()}>${t('common.close')}</button>
      </div>`,
  );
}

/** The person typed the mode's name. */
function notOpen(wanted) {
  if (!wanted || api.info?.open_modes?.includes(wanted)) return nothing;
  return html`<div class="notice warn">${icon('warn')}<p>${t('mode.not_open', { mode: wanted })}</p></div>`;
}

async function openSwitch({ mode, wanted, sessionId, task, apply }) {
  const isOpen = api.info.open_modes?.includes(wanted);
  const view = { chosen: isOpen ? wanted : mode, matrix: null, problem: null, busy: false };
  let draw = () => {};
  const params = sessionId ? { session_id: sessionId } : {};
  api.request('policy.matrix', params).then(
    (matrix) => {
      view.matrix = matrix;
      draw();
    },
    (error) => {
      view.problem = error;
      draw();
    },
  );
  return openDialog(t('mode.title'), (close, update) => {
    draw = update;
    const choose = (name) => {
      view.chosen = name;
      view.problem = null;
      update();
    };
    const confirm = async (event) => {
      event.preventDefault();
      view.busy = true;
      update();
      try {
        await apply(view.chosen);
        close(view.chosen);
      } catch (error) {
        view.problem = error;
        view.busy = false;
        update();
      }
    };
    // As a form, so that Enter on a mode switches to it.
    return html`<form @submit=${confirm}><div class="dialog-body stack">
        ${notOpen(wanted)}
        <fieldset class="modes">
          <legend class="sr-only">${t('mode.title')}</legend>
          ${(api.info?.open_modes ?? [mode]).map(
            (name) => html`<label class="choice">
              <input type="radio" name="mode" value=${name} .checked=${view.chosen === name} ?autofocus=${view.chosen === name} @change=${() => choose(name)} />
              <span><strong class="mono">${name}</strong>${name === mode ? html` <span class="badge">${t('mode.now')}</span>` : nothing}<span class="hint">${purpose(name)}</span></span>
            </label>`,
          )}
        </fieldset>
        ${task ? html`<div class="notice">${icon('info')}<p>${t(task.status === 'running' ? 'mode.while_running' : 'mode.while_waiting', { mode: task.mode })}</p></div>` : nothing}
        ${changes(view, mode)}
        ${view.problem ? html`<div class="notice error" role="alert">${icon('error')}<p>${errorText(view.problem)}</p></div>` : nothing}
        <p class="hint">${t('mode.never_model')}</p>
      </div>
      <div class="dialog-foot">
        <button type="button" class="btn" @click=${() => close()}>${t('common.cancel')}</button>
        <button type="submit" class="btn primary" ?disabled=${view.busy || view.chosen === mode || !view.matrix}>
          ${view.chosen === mode ? t('mode.switch') : t('mode.switch_to', { mode: view.chosen })}
        </button>
      </div></form>`;
  });
}

function changes({ matrix, chosen, problem }, mode) {
  if (!matrix) return problem ? nothing : html`<p role="status" class="muted">${t('common.loading')}</p>`;
  if (chosen === mode) return html`<p class="muted">${t('mode.choose')}</p>`;
  const { gained, lost } = difference(matrix, mode, chosen);
  return html`<div class="mode-changes" aria-live="polite">
    ${toolList('gained', gained)} ${toolList('lost', lost)}
    ${gained.length || lost.length ? nothing : html`<p class="muted">${t('mode.same')}</p>`}
    ${chosen === 'coding' ? html`<div class="notice warn">${icon('warn')}<p>${t('mode.coding_warning')}</p></div>` : nothing}
  </div>`;
}

/** Which tools a switch adds and takes away. @param {any} matrix what policy.matrix gave */
export function difference(matrix, from, to) {
  const allowed = (tool, mode) => tool.modes?.[mode]?.allowed === true;
  const gained = matrix.tools.filter((tool) => !allowed(tool, from) && allowed(tool, to));
  const lost = matrix.tools.filter((tool) => allowed(tool, from) && !allowed(tool, to));
  return { gained, lost };
}

function toolList(name, tools) {
  if (!tools.length) return nothing;
  return html`<section class=${name}>
    <h3>${icon(name === 'gained' ? 'check' : 'denied')} ${t(`mode.${name}`, { n: tools.length })}</h3>
    <ul>${tools.map((tool) => html`<li><code>${tool.name}</code>${tool.effect && tool.effect !== 'read' ? html` <span class="badge warn">${effect(tool.effect)}</span>` : nothing}</li>`)}</ul>
  </section>`;
}

const effect = (name) => (hasText(`effect.${name}`) ? t(`effect.${name}`) : name);
