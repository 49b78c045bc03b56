/** The six kinds of questions: what can be filled in, and the answer to read. `q` is the <il-question> element. */
import { html, nothing } from 'lit';
import { live } from 'lit/directives/live.js';
import { api } from '../api.js';
import { icon } from '../icons.js';
import { markdown } from '../markdown.js';
import { t } from '../i18n.js';

export function widgetView(q) {
  return WIDGETS[q.question.document.type]?.(q, q.question.document) ?? nothing;
}

const WIDGETS = { form, selection, confirmation, plan_review: planReview, feedback, action_selection: actions };

const STYLES = { primary: 'primary', danger: 'danger', default: '' };

function button(label, press, style = '', type = 'button') {
  return html`<button type=${type} class="btn ${style}" @click=${press ?? nothing}>${label}</button>`;
}

// -- form ------------------------------------------------------------------------------------------------

function form(q, document) {
  return html`<div class="stack">${document.fields.map((field) => formField(q, field))}</div>
    <div class="question-foot">${button(document.submit_label ?? t('question.submit'), null, 'primary', 'submit')}</div>`;
}

function formField(q, field) {
  const path = `values.${field.name}`;
  const id = `${q.name}-${field.name}`;
  const { invalid, describedBy, message } = q.errorOf(path);
  const value = q.draft.values[field.name];
  const set = (given) => q.edit({ values: { ...q.draft.values, [field.name]: given } });
  const about = { id, field, value, set, invalid, describedBy };
  const hint = field.description ? html`<p class="hint">${field.description}</p>` : nothing;
  if (field.type === 'boolean') {
    return html`<div class="field">
      <label class="choice"><input id=${id} type="checkbox" .checked=${live(value === true)} aria-invalid=${invalid} aria-describedby=${describedBy} @change=${(event) => set(event.target.checked)} /><span>${field.label}</span></label>
      ${hint}${message}
    </div>`;
  }
  if (field.type === 'multi_select') {
    return html`<fieldset class="field">
      <legend>${field.label}${required(field)}</legend>
      ${hint}
      ${field.options.map((option) => choice({ type: 'checkbox', name: id, option, checked: value.includes(option.value), invalid, describedBy, toggle: (on) => set(on ? [...value, option.value] : value.filter((each) => each !== option.value)) }))}
      ${message}
    </fieldset>`;
  }
  return html`<div class="field">
    <label for=${id}>${field.label}${required(field)}</label>
    ${hint}${INPUTS[field.type](about)}${message}
  </div>`;
}

const required = (field) => (field.required ? html` <span class="required">${t('question.is_required')}</span>` : nothing);

const typed = (set) => (event) => set(event.target.value);

const INPUTS = {
  text: ({ id, field, value, set, invalid, describedBy }) =>
    html`<input id=${id} type="text" dir="auto" .value=${live(value)} maxlength=${(field.max_length ?? 500) * 2} aria-required=${Boolean(field.required)} aria-invalid=${invalid} aria-describedby=${describedBy} @input=${typed(set)} />`,
  multiline: ({ id, field, value, set, invalid, describedBy }) =>
    html`<textarea id=${id} dir="auto" rows="4" .value=${live(value)} aria-required=${Boolean(field.required)} aria-invalid=${invalid} aria-describedby=${describedBy} @input=${typed(set)}></textarea>`,
  number: (about) => numeric(about, 'any'),
  integer: (about) => numeric(about, '1'),
  date: ({ id, field, value, set, invalid, describedBy }) =>
    html`<input id=${id} type="date" .value=${live(value)} aria-required=${Boolean(field.required)} aria-invalid=${invalid} aria-describedby=${describedBy} @input=${typed(set)} />`,
  select: ({ id, field, value, set, invalid, describedBy }) =>
    html`<select id=${id} aria-required=${Boolean(field.required)} aria-invalid=${invalid} aria-describedby=${describedBy} @change=${typed(set)}>
      <option value="" .selected=${live(value === '')}>${t('question.nothing_chosen')}</option>
      ${field.options.map((option) => html`<option value=${option.value} .selected=${live(value === option.value)}>${option.label}${option.description ? ` – ${option.description}` : ''}</option>`)}
    </select>`,
};

function numeric({ id, field, value, set, invalid, describedBy }, step) {
  return html`<input
    id=${id}
    type="number"
    inputmode=${step === '1' ? 'numeric' : 'decimal'}
    step=${step}
    min=${field.min ?? nothing}
    max=${field.max ?? nothing}
    .value=${live(value)}
    aria-required=${Boolean(field.required)}
    aria-invalid=${invalid}
    aria-describedby=${describedBy}
    @input=${typed(set)}
  />`;
}

function choice({ type, name, option, checked, toggle, invalid = nothing, describedBy = nothing }) {
  return html`<label class="choice">
    <input type=${type} name=${name} value=${option.value} .checked=${live(checked)} aria-invalid=${invalid} aria-describedby=${describedBy} @change=${(event) => toggle(event.target.checked)} />
    <span>${option.label}${option.description ? html`<span class="hint">${option.description}</span>` : nothing}</span>
  </label>`;
}

// -- selection -------------------------------------------------------------------------------------------

function selection(q, document) {
  const { draft } = q;
  const type = document.multiple ? 'checkbox' : 'radio';
  const { invalid, describedBy, message } = q.errorOf('choices');
  const other = q.errorOf('other');
  const toggle = (value) => (on) => {
    if (!document.multiple) return q.edit({ choices: [value], usesOther: false });
    return q.edit({ choices: on ? [...draft.choices, value] : draft.choices.filter((each) => each !== value) });
  };
  const toggleOther = (on) => q.edit({ usesOther: on, ...(document.multiple ? {} : { choices: [] }) });
  const otherOption = { value: '', label: t('question.other') };
  return html`<fieldset class="choices" aria-describedby=${describedBy}>
      <legend class="sr-only">${t('question.selection')}</legend>
      ${document.options.map((option) => choice({ type, name: q.name, option, checked: draft.choices.includes(option.value), toggle: toggle(option.value), invalid, describedBy }))}
      ${document.allow_other
        ? html`${choice({ type, name: q.name, option: otherOption, checked: draft.usesOther, toggle: toggleOther })}
            <input type="text" class="other" dir="auto" aria-label=${t('question.other')} .value=${live(draft.other)} aria-invalid=${other.invalid} aria-describedby=${other.describedBy} @input=${(event) => q.edit({ other: event.target.value, usesOther: true, ...(document.multiple ? {} : { choices: [] }) })} />
            ${other.message}`
        : nothing}
      ${message}
    </fieldset>
    <div class="question-foot">
      ${document.multiple ? html`<span class="hint grow">${howMany(document)}</span>` : nothing}
      ${button(t('question.submit'), null, 'primary', 'submit')}
    </div>`;
}

function howMany({ min_choices: low = 1, max_choices: high }) {
  return low === high ? t('question.choose', { n: low }) : t('question.choose_between', { low, high });
}

// -- confirmation, plan review, feedback, actions -------------------------------------------------------------

function confirmation(q, document) {
  const { message } = q.errorOf('confirmed');
  return html`${document.dangerous
      ? html`<label class="choice meant"><input type="checkbox" .checked=${live(q.draft.meant)} @change=${(event) => q.edit({ meant: event.target.checked })} /><span>${t('question.meant')}</span></label>`
      : nothing}
    ${message}
    <div class="question-foot">
      ${button(document.deny_label ?? t('common.no'), () => q.answer(false))}
      ${button(document.confirm_label ?? t('common.yes'), () => q.answer(true), document.dangerous ? 'primary danger' : 'primary')}
    </div>`;
}

function planReview(q, document) {
  return html`${plan(document)} ${commentField(q, t('question.plan_comment'))}
    ${q.canBuild ? html`<p class="hint">${t('question.build_hint')}</p>` : nothing}
    <div class="question-foot">
      ${button(t('question.reject'), () => q.answer('reject'), 'danger')}
      ${button(t('question.revise'), () => q.answer('revise'))}
      ${button(t('question.approve'), () => q.answer('approve'), q.canBuild ? '' : 'primary')}
      ${q.canBuild ? button(t('question.approve_build'), () => q.answer('approve', true), 'primary') : nothing}
    </div>`;
}

function plan(document) {
  return html`<div class="plan md">${markdown(document.plan)}</div>
    ${document.steps?.length ? html`<ol class="steps">${document.steps.map((step) => html`<li>${step}</li>`)}</ol>` : nothing}`;
}

function feedback(q, document) {
  const { invalid, describedBy, message } = q.errorOf('rating');
  const ratings = [];
  for (let n = document.rating_min ?? 1; n <= (document.rating_max ?? 0); n++) ratings.push(n);
  return html`${ratings.length
      ? html`<fieldset class="rating" aria-describedby=${describedBy}>
          <legend>${t('question.rating', { low: ratings[0], high: ratings.at(-1) })}</legend>
          <div class="row wrap">
            ${ratings.map(
              (n) => html`<label class="rate"><input type="radio" name=${q.name} value=${n} .checked=${live(q.draft.rating === n)} aria-invalid=${invalid} @change=${() => q.edit({ rating: n })} /><span>${n}</span></label>`,
            )}
          </div>
          ${message}
        </fieldset>`
      : nothing}
    ${document.comment === 'none' ? nothing : commentField(q, t(document.comment === 'required' ? 'question.comment_required' : 'question.comment'))}
    <div class="question-foot">${button(t('question.submit'), null, 'primary', 'submit')}</div>`;
}

function actions(q, document) {
  return html`${commentField(q, t('question.comment'))}
    <div class="actions">
      ${document.actions.map(
        (action) => html`<div class="action">
          ${button(action.label, () => q.answer(action.id), STYLES[action.style] ?? '')}
          ${action.description ? html`<span class="hint">${action.description}</span>` : nothing}
        </div>`,
      )}
    </div>`;
}

function commentField(q, label) {
  const id = `${q.name}-comment`;
  const { invalid, describedBy, message } = q.errorOf('comment');
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <textarea id=${id} dir="auto" rows="2" .value=${live(q.draft.comment)} aria-invalid=${invalid} aria-describedby=${describedBy} @input=${(event) => q.edit({ comment: event.target.value })}></textarea>
    ${message}
  </div>`;
}

// -- the answer, to be read ----------------------------------------------------------------------------------

/** @param {{document: any, answer: any, who: string}} question */
export function answerView({ document, answer, who }) {
  return html`${document.type === 'plan_review' ? plan(document) : nothing}
    <div class="answer">
      <p class="answer-who">${icon('check')} ${who && who !== api.info?.who ? t('question.answered_by', { who }) : t('question.you_answered')}</p>
      <dl>${answerRows(document, answer ?? {}).map(([name, ...values]) => html`<dt>${name}</dt>${values.map((value) => html`<dd>${value}</dd>`)}`)}</dl>
    </div>`;
}

const labelOf = (options, value) => options?.find((option) => option.value === value)?.label ?? value;

/** Each row is a name and one or more values. */
function answerRows(document, answer) {
  const said = answer.comment ? [[t('question.comment_given'), answer.comment]] : [];
  const answered = (...values) => [t('question.answer'), ...values];
  switch (document.type) {
    case 'form':
      return document.fields.map((field) => [field.label, shownValue(field, answer.values?.[field.name])]);
    case 'selection': {
      const chosen = (answer.choices ?? []).map((value) => labelOf(document.options, value));
      const all = answer.other ? [...chosen, answer.other] : chosen;
      return [answered(...(all.length ? all : [t('question.none')]))];
    }
    case 'confirmation':
      return [answered(answer.confirmed ? (document.confirm_label ?? t('common.yes')) : (document.deny_label ?? t('common.no')))];
    case 'plan_review':
      return [answered(t(`question.decision.${answer.decision}`)), ...said];
    case 'feedback':
      return [...(answer.rating === undefined ? [] : [[t('question.rating_given'), `${answer.rating} / ${document.rating_max}`]]), ...said];
    default:
      return [answered(document.actions?.find((action) => action.id === answer.action)?.label ?? answer.action), ...said];
  }
}

function shownValue(field, value) {
  if (value === null || value === undefined) return html`<span class="muted">${t('question.left_empty')}</span>`;
  if (typeof value === 'boolean') return t(value ? 'common.yes' : 'common.no');
  if (Array.isArray(value)) return value.map((each) => labelOf(field.options, each)).join(', ');
  return field.options ? labelOf(field.options, value) : String(value);
}
