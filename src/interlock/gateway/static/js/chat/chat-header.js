/** The head of a chat: title, agent, model, mode, and what can be done with the session. */
import { html, nothing } from 'lit';
import { live } from 'lit/directives/live.js';
import { api } from '../api.js';
import { openDialog, showError } from '../dialog.js';
import { icon } from '../icons.js';
import { modelNames, store } from '../session-store.js';
import { t } from '../i18n.js';
import { sessionMenuItems, sessionTitle } from '../shell/session-actions.js';
import { modeChip } from './mode-switch.js';
import { startedTask } from './reducer.js';
import '../menu.js';

/** @param {{host: any, chat: import('./chat-session.js').ChatSession|null, choice: any, menuButton: unknown, openMode(): void}} about */
export function chatHeaderView({ host, chat, choice, menuButton, openMode }) {
  const session = chat?.session;
  const mode = chat ? chat.mode : api.info ? (choice.mode ?? 'chat_safe') : '';
  return html`<header class="chat-head">
    ${menuButton}
    <div class="chat-title">
      ${chat
        ? html`<h1 class="clip" title=${session ? sessionTitle(session) : ''}>${session ? sessionTitle(session) : store.session(chat.id)?.title ?? ''}</h1>`
        : html`<h1 class="clip">${t('sessions.new')}</h1>`}
      ${session?.agent ? html`<span class="badge">${icon('person')}${session.agent}</span>` : nothing}
      ${session?.kind === 'run' ? html`<a class="badge info" href="#/runs/${chat.id}">${icon('workflows')}${t('chat.open_run')}</a>` : nothing}
      ${session?.archived ? html`<span class="badge">${t('sessions.is_archived')}</span>` : nothing}
    </div>
    <div class="chat-tools">
      ${chat ? nothing : agentChoice(host, choice)} ${modelChoice(host, chat, choice)} ${downgraded(session)}
      ${otherMode(chat)} ${modeChip(mode, openMode)}
      ${session
        ? html`<il-menu label=${t('sessions.menu', { title: sessionTitle(session) })} .items=${sessionMenuItems(session, () => rename(chat))}></il-menu>`
        : nothing}
    </div>
  </header>`;
}

function agentChoice(host, choice) {
  const usable = store.agents.filter((agent) => !agent.problem);
  if (!usable.length) return nothing;
  return html`<select class="small-select" aria-label=${t('agent.label')} title=${t('agent.label')} @change=${(event) => host.choose({ agent: event.target.value })}>
    <option value="" .selected=${live(!choice.agent)}>${t('agent.none')}</option>
    ${usable.map((agent) => html`<option value=${agent.name} title=${agent.description ?? ''} .selected=${live(choice.agent === agent.name)}>${agent.name}</option>`)}
  </select>`;
}

function modelChoice(host, chat, choice) {
  const names = modelNames();
  const now = (chat ? chat.session?.model : choice.model) || '';
  const usual = api.info?.usual_model ?? '';
  if (names.length < 2) return usual ? html`<span class="badge model" title="${t('model.label')}: ${usual}">${api.info.usual_model_name}</span>` : nothing;
  return html`<select class="small-select" aria-label=${t('model.label')} title=${t('model.label')} @change=${(event) => host.chooseModel(event.target.value)}>
    <option value="" .selected=${live(!now)}>${t('model.usual_is', { model: usual })}</option>
    ${names.map((name) => html`<option value=${name} .selected=${live(now === name)}>${name}</option>`)}
  </select>`;
}

/** The session was once in a mode that is not open now. */
function downgraded(session) {
  if (!session || !session.stored_mode || session.stored_mode === session.mode) return nothing;
  return html`<span class="badge warn" title=${t('mode.downgraded', { stored: session.stored_mode, mode: session.mode })}>${icon('warn')}${session.stored_mode}</span>`;
}

/** A task that has begun never gets a looser mode, whatever the session is switched to. */
function otherMode(chat) {
  const running = chat && startedTask(chat.state)?.mode;
  if (!running || running === chat.mode) return nothing;
  return html`<span class="badge warn other-mode" role="status">${t('mode.of_task', { mode: running })}</span>`;
}

async function rename(chat) {
  const title = await openDialog(t('sessions.rename'), (close) => {
    const submit = (event) => {
      event.preventDefault();
      close(String(new FormData(event.target).get('title')).trim());
    };
    return html`<form @submit=${submit}>
      <div class="dialog-body field">
        <label for="new-title">${t('sessions.title')}</label>
        <input id="new-title" name="title" type="text" maxlength="200" .value=${chat.session.title} autofocus />
      </div>
      <div class="dialog-foot">
        <button type="button" class="btn" @click=${() => close()}>${t('common.cancel')}</button>
        <button type="submit" class="btn primary">${t('common.save')}</button>
      </div>
    </form>`;
  });
  if (!title || title === chat.session.title) return;
  try {
    await chat.rename(title);
  } catch (error) {
    showError(error);
  }
}
