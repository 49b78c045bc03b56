/** What a command with a slash does on the page. Most of them do what a button does too. */
import { html, nothing } from 'lit';
import { api } from '../api.js';
import { confirmed, openDialog, showError } from '../dialog.js';
import { icon } from '../icons.js';
import { markdown } from '../markdown.js';
import { modelNames } from '../session-store.js';
import { t, translated } from '../i18n.js';
import { layerName } from '../views/components.js';
import { suggestsModeSwitch } from './tool-call.js';
import { hasChangedFiles, hasEnded, tasksOf } from './reducer.js';
import { commands } from './slash-parser.js';

/**
 * What the chat lends: its session, where there is one, and what its own buttons do. `tell` says one line.
 * @typedef {{chat: import('./chat-session.js').ChatSession|null, mode: string, model: string, tell(text: string): void,
 *   chooseMode(mode: string): void, chooseModel(model: string): Promise<void>, undo(task: object): Promise<void>,
 *   cancel(id: string): Promise<void>, steer(text: string): void, toBeginning(): void, begin(): void}} Host
 */

/** @param {{name: string, rest: string}} command @param {Host} host */
export async function runSlashCommand({ name, rest }, host) {
  try {
    await DOING[name](host, rest);
  } catch (error) {
    showError(error);
  }
}

const DOING = {
  help: openHelp,
  mode: (host, rest) => host.chooseMode(rest),
  tools: openTools,
  why: openWhy,
  model: chooseModel,
  history: (host) => (hasWords(host) ? host.toBeginning() : host.tell(t('slash.nothing_said'))),
  compact: compactContext,
  build: buildPlan,
  undo: undoNewest,
  steer: (host, rest) => (rest ? host.steer(rest) : host.tell(t('slash.steer_what'))),
  cancel: cancelAll,
  new: (host) => host.begin(),
};

const hasWords = ({ chat }) => Boolean(chat?.state.entries.length);

function openHelp() {
  return openDialog(
    t('slash.help_title'),
    (close) => html`<div class="dialog-body stack">
        <p>${t('slash.help_text')}</p>
        <dl class="slash-list">
          ${commands().map(({ name, takes }) => html`<dt><code>/${name}${takes ? ` ${takes}` : nothing}</code></dt><dd>${t(`slash.${name}`)}</dd>`)}
        </dl>
        <p class="hint">${t('slash.help_path')}</p>
      </div>
      ${closing(close)}`,
  );
}

const closing = (close) => html`<div class="dialog-foot">
  <button type="button" class="btn primary" autofocus @click=${() => close()}>${t('common.close')}</button>
</div>`;

async function openTools({ chat, mode }) {
  const { tools } = await api.request('policy.matrix', chat ? { session_id: chat.id } : {});
  const allowed = tools.filter((tool) => tool.modes[mode]?.allowed);
  const refused = tools.filter((tool) => !tool.modes[mode]?.allowed);
  return openDialog(
    t('slash.tools_title', { mode }),
    (close) => html`<div class="dialog-body stack slash-tools">
        <section class="gained"><h3>${icon('check')} ${t('slash.tools_yes', { n: allowed.length })}</h3>
          <ul>${allowed.map(({ name }) => html`<li><code>${name}</code></li>`)}</ul></section>
        <section class="lost"><h3>${icon('denied')} ${t('slash.tools_no', { n: refused.length })}</h3>
          <ul>${refused.map((tool) => html`<li><code>${tool.name}</code> <span class="hint">${reason(tool, tool.modes[mode] ?? {})}</span></li>`)}</ul></section>
        <p><a href="#/authority" @click=${() => close()}>${t('mode.see_authority')}</a></p>
      </div>
      ${closing(close)}`,
  );
}

/** Without the tool's name, with which most sentences begin. */
function reason({ name }, { message = '' }) {
  const text = translated(message);
  return text.startsWith(`${name} `) ? text.slice(name.length + 1) : text;
}

async function openWhy({ chat, mode, tell, chooseMode }) {
  const params = { session_id: chat?.id, kinds: ['tool_call.denied'], limit: 1 };
  const denial = chat && (await api.request('events.tail', params)).events[0]?.payload;
  if (!denial) return tell(t('slash.nothing_refused'));
  const next = await nextActionNow(denial, chat.id, mode);
  return openDialog(
    t('slash.why_title'),
    (close) => html`<div class="dialog-body stack">
        <dl class="denial">
          <dt>${t('denial.what')}</dt><dd><code>${denial.tool_name}</code></dd>
          <dt>${t('denial.mode')}</dt><dd><code>${denial.mode}</code></dd>
          <dt>${t('denial.why')}</dt><dd>${translated(denial.error)} <code class="error-code">${denial.error_code}</code></dd>
          <dt>${t('authority.by')}</dt><dd>${layerName(denial.layer)}</dd>
          <dt>${t('denial.next')}</dt><dd>${translated(next)}</dd>
        </dl>
      </div>
      <div class="dialog-foot">
        ${suggestsModeSwitch({ next_action: next }) ? html`<button type="button" class="btn" @click=${() => close(chooseMode(''))}>${t('denial.switch')}</button>` : nothing}
        <a class="btn" href="#/authority/${encodeURIComponent(denial.tool_name)}" @click=${() => close()}>${t('denial.authority', { tool: denial.tool_name })}</a>
        <button type="button" class="btn primary" autofocus @click=${() => close()}>${t('common.close')}</button>
      </div>`,
  );
}

/** The log has what could be done then, at the place where the call was made. */
async function nextActionNow({ tool_name: tool, layer, next_action: then }, session, mode) {
  if (layer === 'arguments') return then;
  const now = await api.request('policy.explain', { tool_name: tool, mode, session_id: session });
  if (now.allowed) return t('slash.why_allowed', { tool, mode });
  return now.error_code === 'TOOL_NOT_FOUND' ? then : now.next_action;
}

async function chooseModel({ chooseModel: choose, model, tell }, wanted) {
  const names = modelNames();
  if (!wanted) return tell(t('slash.model_is', { model: model || api.info.usual_model, names: names.join(', ') }));
  if (!names.includes(wanted)) return tell(t('slash.no_model', { model: wanted, names: names.join(', ') }));
  await choose(wanted);
  return tell(t('slash.model_chosen', { model: wanted }));
}

async function compactContext(host) {
  if (!hasWords(host)) return host.tell(t('slash.nothing_said'));
  await api.request('session.compact', { session_id: host.chat.id });
  return host.tell(t('slash.compact_requested'));
}

/** The newest plan counts alone: an older one has been moved on from. */
async function buildPlan({ chat, tell }) {
  const listed = chat ? await api.request('questions.list', { session_id: chat.id, closed: true, limit: 200 }) : { questions: [] };
  const plan = listed.questions.find(({ widget }) => widget === 'plan_review');
  if (plan?.answer?.decision !== 'approve') return tell(t('slash.no_plan'));
  const sure = await confirmed({
    title: t('question.build'),
    text: html`<p>${t('question.build_hint')}</p><div class="plan md">${markdown(plan.document.plan ?? plan.document.message)}</div>`,
    confirm: t('question.build'),
  });
  return sure ? api.request('ask_user.build', { question_id: plan.id }) : undefined;
}

/** What is not shown yet may be the newest that changed files. */
async function undoNewest({ chat, undo, tell }) {
  const canUndo = (task) => hasEnded(task) && hasChangedFiles(task) && !task.undos.length;
  let newest = null;
  for (let from = Infinity; chat && !newest && chat.state.fromSeq < from; ) {
    from = chat.state.fromSeq;
    newest = tasksOf(chat.state).findLast(canUndo);
    if (!newest && from > 0) await chat.loadEarlier();
  }
  return newest ? undo(newest) : tell(t('slash.nothing_to_undo'));
}

async function cancelAll({ chat, cancel, tell }) {
  const unfinished = chat ? tasksOf(chat.state).filter((task) => !hasEnded(task)) : [];
  if (!unfinished.length) return tell(t('slash.nothing_runs'));
  // The last one first: else each would begin when the one before it has gone.
  return Promise.all(unfinished.toReversed().map((task) => cancel(task.id)));
}
