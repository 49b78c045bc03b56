/** One task in the stream: what was asked, what was done, what came of it. */
import { html, nothing } from 'lit';
import { guard } from 'lit/directives/guard.js';
import { repeat } from 'lit/directives/repeat.js';
import { api } from '../api.js';
import { copyButton } from '../copy-button.js';
import { icon } from '../icons.js';
import { markdown } from '../markdown.js';
import { formatDuration, formatMoment, formatNumber, formatTime, hasText, language, t, translated } from '../i18n.js';
import { answerOf, hasChangedFiles, hasEnded, tokensOf, workedMs } from './reducer.js';
import './tool-call.js';

/**
 * @param {import('./reducer.js').TaskEntry} task
 * @param {{sessionId: string, before: number, canBuild: boolean, steers?: boolean, busy: Record<string, string>, retry(id: string): void,
 *   undo(task: object): void, redo(task: object): void, cancel(id: string): void}} context
 */
export function taskView(task, context) {
  return html`<article class="task ${task.status}" data-task-id=${task.id} aria-label=${t('task.label')}>
    ${messageView(task)}
    <div class="rail">
      ${repeat(
        task.blocks,
        (block) => block.key,
        (block) => guard([block, hasEnded(task), planMode(task, context), language()], () => blockView(block, task, context)),
      )}
      ${footView(task, context)}
    </div>
  </article>`;
}

function messageView({ message, who }) {
  if (!message) return nothing;
  return html`<div class="said">
    <div class="said-head">
      <span class="said-who">${!who || who === api.info?.who ? t('task.you') : who}</span>
      <time title=${formatMoment(message.timeUs)}>${formatTime(message.timeUs)}</time>
    </div>
    <div class="said-text" dir="auto">${message.content}</div>
  </div>`;
}

/** What was done for a task and nothing around it. @param {import('./reducer.js').TaskEntry} task */
export function workView(task, context = { canBuild: false }) {
  return html`<div class="rail">${repeat(task.blocks, (block) => block.key, (block) => blockView(block, task, context))}</div>`;
}

/** The mode a plan was made in, where it could be built. */
const planMode = (task, { canBuild }) => (canBuild ? task.mode : '');

function blockView(block, task, context) {
  if (block.type === 'text') {
    return html`<div class="md answer-text ${block.open && !hasEnded(task) ? 'streaming' : ''}">${markdown(block.text)}</div>`;
  }
  if (block.type === 'said') return messageView(block);
  if (block.type === 'reasoning') return reasoningView(block, task);
  if (block.type === 'call') return html`<il-call .call=${block} .mode=${planMode(task, context)} ?ended=${hasEnded(task)}></il-call>`;
  return noteView(block);
}

/** Folded: it is long, and not the answer. */
function reasoningView({ text, durationMs, open }, task) {
  const isOn = open && durationMs === null && !hasEnded(task);
  const said = durationMs ? t('reasoning.done', { time: formatDuration(durationMs) }) : t(isOn ? 'reasoning.on' : 'reasoning.label');
  return html`<details class="reasoning">
    <summary>${isOn ? html`<span class="spinner" aria-hidden="true"></span>` : nothing}${said}</summary>
    <div class="reasoning-text" dir="auto">${text}</div>
  </details>`;
}

/** What the log tells about the work itself, where a person wants to know it. */
export function noteView({ kind, payload }) {
  const key = `note.${kind}`;
  if (!hasText(key)) return nothing;
  const isBad = kind === 'control.limit_reached' || kind === 'retry.exhausted' || kind === 'progress.stalled';
  const values = { ...payload };
  if (payload.who && payload.who === api.info?.who) values.who = t('task.you');
  if (kind === 'session.model_changed') values.to_model ||= t('model.usual');
  const isUndo = kind === 'undo.finished' || kind === 'redo.finished';
  if (isUndo) values.n = payload.restored?.length ?? 0;
  const text = payload.sentence || t(key, values);
  const left = isUndo ? (payload.left ?? []) : [];
  return html`<p class="note ${isBad ? 'bad' : ''}">${icon(isBad ? 'warn' : 'info')}<span>${text}</span></p>
    ${left.map(([path, reason]) => html`<p class="note">${icon('warn')}<span>${t('undo.left_because', { path, reason })}</span></p>`)}`;
}

// -- how it stands ---------------------------------------------------------------------------------------

function footView(task, context) {
  switch (task.status) {
    case 'queued':
      return html`<div class="task-foot" role="status">
        ${icon('clock')}<span class="grow">${context.steers ? t('task.steers') : context.before ? t('task.queued_behind', { n: context.before }) : t('task.queued')}</span>
        ${cancelButton(task, context)}
      </div>`;
    case 'running':
      return html`<div class="task-foot working" role="status"><span class="spinner" aria-hidden="true"></span><span>${t('task.running')}</span>${modeOf(task)}</div>`;
    case 'waiting':
      return html`<div class="task-foot waiting" role="status">${icon('question')}<span>${t('task.waiting')}</span>${modeOf(task)}${cancelButton(task, context)}</div>`;
    case 'failed':
      return html`<div class="task-end notice error">
          ${icon('error')}
          <div class="grow">
            <p><strong>${t('task.failed')}</strong> ${task.reason}</p>
            ${hasText(`task.help.${task.code}`) ? html`<p class="hint">${t(`task.help.${task.code}`)}</p>` : nothing}
          </div>
          ${retryButton(task, context)}
        </div>
        ${aboutView(task, context)}`;
    case 'cancelled':
      return html`<div class="task-end notice">${icon('stop')}<p class="grow">${cancelledText(task)}</p>${retryButton(task, context)}</div>
        ${aboutView(task, context)}`;
    default:
      return aboutView(task, context);
  }
}

/** The server says by whom and why, in English. */
function cancelledText({ reason }) {
  const [, who, why] = /^cancelled by (.+?)(?:: (.+))?$/.exec(reason) ?? [];
  if (!who) return reason ? `${t('task.cancelled')} (${reason})` : t('task.cancelled');
  const by = who === api.info?.who ? t('task.cancelled_by_you') : t('task.cancelled_by', { who });
  return why ? t('task.cancelled_because', { by, why: translated(why) }) : by;
}

const modeOf = ({ mode }) => html`<span class="grow muted">${mode ? t('task.mode', { mode }) : nothing}</span>`;

function cancelButton(task, { cancel, busy }) {
  return html`<button type="button" class="btn tiny" ?disabled=${busy[task.id] === 'cancel'} @click=${() => cancel(task.id)}>${icon('stop')}${t('task.cancel')}</button>`;
}

function retryButton(task, { retry, busy }) {
  return html`<button type="button" class="btn tiny" ?disabled=${busy[task.id] === 'retry'} @click=${() => retry(task.id)}>${icon('retry')}${t('common.retry')}</button>`;
}

function aboutView(task, context) {
  const calls = task.blocks.filter((block) => block.type === 'call');
  const refused = calls.filter((call) => call.status === 'denied').length;
  const failed = calls.filter((call) => call.status === 'failed').length;
  const spent = workedMs(task);
  const tokens = tokensOf(task);
  const answer = answerOf(task);
  return html`<div class="task-about">
    <span class="facts">
      ${task.status === 'done' ? html`<span class="done-mark">${icon('check')}${t('task.done')}</span>` : nothing}
      ${spent ? html`<span>${formatDuration(spent)}</span>` : nothing}
      ${calls.length ? html`<span>${t('task.calls', { n: calls.length })}</span>` : nothing}
      ${refused ? html`<span class="refused">${icon('denied')}${t('task.refused', { n: refused })}</span>` : nothing}
      ${failed ? html`<span class="failed">${icon('error')}${t('task.failed_calls', { n: failed })}</span>` : nothing}
      ${tokens ? html`<span>${t('task.tokens', { n: formatNumber(tokens) })}</span>` : nothing}
    </span>
    <span class="row">
      ${undoButtons(task, context)} ${answer ? copyButton(() => answer) : nothing}
      <a class="btn tiny ghost" href="#/activity/${context.sessionId}/${task.id}">${icon('activity')}${t('task.timeline')}</a>
    </span>
  </div>`;
}

function undoButtons(task, { undo, redo, busy }) {
  if (!hasChangedFiles(task)) return nothing;
  const button = (what, act) =>
    html`<button type="button" class="btn tiny ghost" ?disabled=${busy[task.id] === 'undo'} @click=${() => act(task)}>${icon(what)}${t(`${what}.button`)}</button>`;
  return html`${task.undos.length ? html`<span class="badge">${icon('undo')}${t('undo.done')}</span>${button('redo', redo)}` : nothing}
    ${task.canUndo ? button('undo', undo) : nothing}`;
}
