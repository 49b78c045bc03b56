/** The chat of one session, or of one that begins with the first message. */
import { html, nothing } from 'lit';
import { repeat } from 'lit/directives/repeat.js';
import { api } from '../api.js';
import { PageElement } from '../page-element.js';
import { errorText, showError } from '../dialog.js';
import { icon } from '../icons.js';
import { announce, kept, store } from '../session-store.js';
import { t, translated } from '../i18n.js';
import { beginning } from './new-session.js';
import { runSlashCommand } from './slash-commands.js';
import { ChatSession } from './chat-session.js';
import { emptyChatView } from './empty-chat.js';
import { chatHeaderView } from './chat-header.js';
import { openModeDialog } from './mode-switch.js';
import { pendingMessageView } from './pending-message.js';
import { ScrollPosition } from './scroll-position.js';
import { activeTask, answerOf, hasEnded, startedTask, messagesBy, countTasksBefore, tasksOf } from './reducer.js';
import { noteView, taskView } from './task-view.js';
import { redoTask, undoTask } from './undo.js';
import './composer.js';

const SHELL_TOOLS = new Set(['bash', 'bash_readonly']);

class ChatView extends PageElement {
  static properties = {
    sessionId: { attribute: false },
    /** The number of the message to show; 0 for the end. */
    seq: { attribute: false },
    menuButton: { attribute: false },
    state: { state: true },
    busy: { state: true },
    unseen: { state: true },
    choice: { state: true },
    starting: { state: true },
  };

  /** @type {ChatSession|null} */
  #chat = null;
  #place = new ScrollPosition(() => this.querySelector('.stream'));
  #seen = undefined;
  #sought = 0;
  /** What was sent while the session was being made. */
  #behind = [];
  #shell = { mode: '', isOffered: false };
  // Cards render a moment later than the stream, and fold in and out by themselves.
  #grows = new ResizeObserver(() => this.#chat && this.#place.keep());

  constructor() {
    super();
    /** @type {string} */
    this.sessionId = undefined;
    /** @type {number} */
    this.seq = undefined;
    /** @type {unknown} */
    this.menuButton = undefined;
    this.busy = {};
    this.choice = {};
    this.state = api.state;
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(api.onState((state) => (this.state = state)));
    this.until(store.onChange(() => this.requestUpdate()));
    this.until(() => this.#leave());
    this.addEventListener('switch-mode', this.#openMode);
    this.addEventListener('answered', () => {
      this.#toEnd();
      this.#writeOn();
    });
    this.until(() => this.#grows.disconnect());
  }

  firstUpdated() {
    this.#grows.observe(this.querySelector('.column'));
  }

  willUpdate(changed) {
    const last = this.#chat?.state.entries.at(-1);
    if (!this.#place.sticks && this.#seen && last !== this.#seen) this.unseen = true;
    this.#seen = last;
    if (changed.has('seq') || changed.has('sessionId')) this.#sought = this.seq;
    if (!changed.has('sessionId') || this.#chat?.id === this.sessionId) return;
    this.#leave();
    this.unseen = false;
    this.#place.sticks = true;
    this.updateComplete.then(() => this.#writeOn());
    if (this.sessionId) this.#enter(this.sessionId);
  }

  #enter(id) {
    this.#chat = new ChatSession(
      id,
      () => this.requestUpdate(),
      (task) => this.#tellEnd(task),
    );
  }

  /** What had the focus is gone. On a phone this would bring up the keyboard. */
  #writeOn() {
    if (matchMedia('(hover: hover)').matches) this.querySelector('il-composer')?.focus();
  }

  #leave() {
    this.#chat?.close();
    this.#chat = null;
  }

  /** Said once, when it is whole: not each word of it. */
  #tellEnd(task) {
    const refused = task.blocks.filter((block) => block.status === 'denied');
    const words = refused.map((block) => `${t('status.denied')}: ${translated(block.denial.message)}`);
    if (task.status === 'done') words.push(answerOf(task));
    else words.push(`${t(`task.${task.status}`)} ${task.reason}`);
    announce(words.join('. '));
  }

  // -- looks --

  render() {
    const chat = this.#chat;
    return html`<div class="chat">
      ${chatHeaderView({ host: this, chat, choice: this.choice, menuButton: this.menuButton, openMode: this.#openMode })}
      <div class="stream" @scroll=${() => this.#place.scrolled() && this.#moved()} @toggle=${() => this.#place.toggled() && this.#moved()}>
        <div class="column">${chat ? this.#stream(chat) : this.#beginning()}</div>
      </div>
      ${this.#jump()} ${this.#sandboxWarning()} ${this.#composer(chat)}
    </div>`;
  }

  #beginning() {
    return emptyChatView({
      isFirst: store.sessions?.length === 0 && !kept.get('tour'),
      off: this.state !== 'open' || this.starting,
      dismiss: () => {
        kept.set('tour', 'seen');
        this.requestUpdate();
      },
      send: (text) => this.#begin(text),
    });
  }

  #stream(chat) {
    if (chat.phase === 'gone') {
      return html`<div class="empty stack"><h2>${t('chat.gone')}</h2><p>${t('chat.gone_text')}</p><p><a class="btn" href="#/chat">${t('sessions.new')}</a></p></div>`;
    }
    if (chat.phase === 'failed') {
      return html`<div class="notice error" role="alert">${icon('error')}<p class="grow">${errorText(chat.problem)}</p><button class="btn tiny" @click=${() => chat.retryLoad()}>${t('common.retry')}</button></div>`;
    }
    const { state, pending } = chat;
    if (chat.phase === 'loading' && !state.entries.length && !pending.length) {
      return html`<p class="empty" role="status"><span class="spinner"></span> ${t('common.loading')}</p>`;
    }
    if (!state.entries.length && !pending.length) {
      return emptyChatView({ isFirst: false, off: this.state !== 'open', dismiss() {}, send: (text) => this.#send(text) });
    }
    return html`${state.fromSeq > 0 ? this.#earlier(chat) : nothing}
      ${repeat(
        state.entries,
        (entry) => entry.id ?? entry.key,
        (entry) => (entry.type === 'task' ? taskView(entry, this.#context(chat, entry)) : noteView(entry)),
      )}
      ${pending.map((message) => pendingMessageView(message, { resend: () => chat.resend(message), takeBack: () => this.#takeBack(chat, message) }))}`;
  }

  #context(chat, task) {
    return {
      sessionId: chat.id,
      before: task.status === 'queued' ? countTasksBefore(chat.state, task.id) : 0,
      steers: tasksOf(chat.state).some((each) => each.id === task.steers && !hasEnded(each)),
      busy: this.busy,
      // In a run the workflow says what comes after a plan.
      canBuild: chat.session?.kind !== 'run',
      retry: (id) => this.#doing(id, 'retry', () => chat.retry(id)),
      cancel: (id) => this.#cancel(chat, id),
      undo: (which) => this.#undo(chat, which),
      redo: (which) => this.#redo(chat, which),
    };
  }

  async #doing(id, what, act) {
    this.busy = { ...this.busy, [id]: what };
    try {
      await act();
    } catch (error) {
      if (error.code !== 'TASK_STATUS') showError(error);
    }
    const { [id]: _, ...others } = this.busy;
    this.busy = others;
  }

  async #undo(chat, task) {
    await this.#doing(task.id, 'undo', () => undoTask(task, chat));
    if (document.activeElement === document.body) this.#writeOn();
  }

  async #redo(chat, task) {
    await this.#doing(task.id, 'undo', () => redoTask(task.id, task.undos.at(-1), chat));
    if (document.activeElement === document.body) this.#writeOn();
  }

  #cancel(chat, id) {
    this.#writeOn();
    return this.#doing(id, 'cancel', () => chat.cancel(id));
  }

  #earlier(chat) {
    return html`<div class="earlier">
      <button type="button" class="btn tiny" ?disabled=${chat.loadingEarlier || this.state !== 'open'} @click=${() => this.#loadEarlier(chat)}>
        ${chat.loadingEarlier ? t('common.loading') : t('chat.earlier')}
      </button>
    </div>`;
  }

  #takeBack(chat, message) {
    chat.dropPending(message);
    this.querySelector('il-composer').fill(message.content);
  }

  #jump() {
    if (this.#place.sticks || !this.#chat) return nothing;
    const label = t(this.unseen ? 'chat.new_messages' : 'chat.to_end');
    return html`<button type="button" class="jump btn ${this.unseen ? 'with-words' : ''}" title=${label} aria-label=${label} @click=${() => this.#toEnd()}>
      ${icon('down')}${this.unseen ? label : nothing}
    </button>`;
  }

  /** Where nothing confines commands, and this session may run some, it is said. */
  #sandboxWarning() {
    if (api.info?.sandbox?.confines !== false || !this.#shell.isOffered) return nothing;
    return html`<div class="sandbox-warning notice warn" role="note">${icon('warn')}<p>${t('sandbox.off')}</p></div>`;
  }

  async #checkShell() {
    const mode = this.#chat?.mode ?? '';
    if (api.info?.sandbox?.confines !== false || mode === this.#shell.mode) return;
    this.#shell = { mode, isOffered: false };
    if (!mode) return;
    try {
      const { tools } = await api.request('policy.matrix', { session_id: this.sessionId });
      const isOffered = tools.some((tool) => SHELL_TOOLS.has(tool.name) && tool.modes?.[mode]?.allowed);
      if (mode === this.#shell.mode) this.#shell = { mode, isOffered };
      this.requestUpdate();
    } catch {
      this.#shell = { mode: '', isOffered: false };
    }
  }

  #composer(chat) {
    const active = chat && activeTask(chat.state);
    const waiting = active?.status === 'waiting';
    let reason = '';
    if (this.state !== 'open') reason = t('composer.offline');
    else if (chat?.phase === 'gone') reason = t('chat.gone');
    else if (chat?.session?.kind === 'run') reason = t('chat.is_run');
    const hint = waiting ? t('composer.closes_question') : active ? t(matchMedia('(hover: none)').matches ? 'composer.queues_touch' : 'composer.queues') : '';
    return html`<il-composer
      .draftKey=${this.sessionId || 'new'}
      .reason=${reason}
      .hint=${hint}
      .past=${() => (chat ? messagesBy(chat.state, api.info?.who) : [])}
      ?running=${Boolean(active) && !waiting}
      ?stopping=${Boolean(active) && this.busy[active.id] === 'cancel'}
      @message=${(event) => this.#take(event.detail)}
      @steer=${(event) => this.#take(event.detail, true)}
      @command=${(event) => runSlashCommand(event.detail, this.#host())}
      @stop=${() => this.#cancel(chat, active.id)}
    ></il-composer>`;
  }

  // -- doing --

  /** What commands with a slash work with. */
  #host() {
    const chat = this.#chat;
    return {
      chat,
      mode: this.#mode,
      model: (chat ? chat.session?.model : this.choice.model) ?? '',
      tell: (text) => this.querySelector('il-composer')?.tell(text),
      chooseMode: (mode) => this.#chooseMode(mode),
      chooseModel: (model) => this.chooseModel(model),
      undo: (task) => this.#undo(chat, task),
      cancel: (id) => this.#cancel(chat, id),
      steer: (text) => this.#take(text, true),
      toBeginning: () => this.#toBeginning(chat),
      begin: () => (location.hash = '#/chat'),
    };
  }

  get #mode() {
    return this.#chat ? this.#chat.mode : (this.choice.mode ?? 'chat_safe');
  }

  #take(text, steer = false) {
    return this.#chat ? this.#send(text, steer) : this.#begin(text);
  }

  #send(text, steer = false) {
    this.#place.sticks = true;
    this.#chat?.send(text, steer);
  }

  /** The session is created with its first message, so that no empty ones pile up. */
  async #begin(text) {
    if (this.starting) {
      this.#behind.push(text);
      return;
    }
    this.starting = true;
    try {
      const { session } = await api.request('session.create', beginning(text, this.choice));
      kept.set('tour', 'seen');
      this.choice = {};
      store.put(session);
      this.#enter(session.id);
      location.hash = `#/chat/${session.id}`;
      for (const each of [text, ...this.#behind.splice(0)]) this.#send(each);
    } catch (error) {
      const composer = this.querySelector('il-composer');
      composer.fill([text, ...this.#behind.splice(0), composer.text].filter(Boolean).join('\n\n'));
      showError(error);
    }
    this.starting = false;
  }

  #openMode = () => this.#chooseMode();

  #chooseMode(wanted = '') {
    const chat = this.#chat;
    openModeDialog({
      wanted,
      mode: this.#mode,
      sessionId: chat?.id ?? '',
      task: chat && startedTask(chat.state),
      apply: async (mode) => {
        // The session may have begun while the dialog was open.
        const now = chat ?? this.#chat;
        if (now) await now.setMode(mode);
        else this.choice = { ...this.choice, mode };
      },
    });
  }

  choose(change) {
    this.choice = { ...this.choice, ...change };
  }

  async chooseModel(model) {
    if (!this.#chat) return this.choose({ model });
    try {
      await this.#chat.setModel(model);
    } catch (error) {
      showError(error);
    }
    return undefined;
  }

  // -- the place in the stream --

  #moved() {
    if (this.#place.sticks) this.unseen = false;
    this.requestUpdate();
  }

  #toEnd() {
    this.#place.toEnd();
    this.#moved();
  }

  #loadEarlier(chat) {
    return this.#place.hold(this.querySelector('.said'), async () => {
      await chat.loadEarlier();
      await this.updateComplete;
      await Promise.all([...this.querySelectorAll('il-call')].map((call) => call.updateComplete));
    });
  }

  /** To the task with the message that was looked for, however long ago it was. */
  async #seek(chat, seq) {
    await this.#loadBack(chat, seq);
    const task = tasksOf(chat.state).findLast(({ message }) => message && message.seq <= seq);
    if (chat !== this.#chat) return;
    if (task) this.querySelector(`[data-task-id="${CSS.escape(task.id)}"]`)?.scrollIntoView();
    else this.#toEnd();
  }

  async #toBeginning(chat) {
    await this.#loadBack(chat, 0);
    if (chat === this.#chat) this.querySelector('.stream').scrollTop = 0;
  }

  async #loadBack(chat, seq) {
    this.#place.sticks = false;
    for (let from = Infinity; seq <= chat.state.fromSeq && chat.state.fromSeq < from; ) {
      from = chat.state.fromSeq;
      await chat.loadEarlier();
    }
    await this.updateComplete;
  }

  updated() {
    if (this.#sought && this.#chat?.phase === 'ready') {
      const seq = this.#sought;
      this.#sought = 0;
      this.#seek(this.#chat, seq);
    }
    if (this.#chat) this.#place.keep();
    this.#checkShell();
  }
}

customElements.define('il-chat', ChatView);
