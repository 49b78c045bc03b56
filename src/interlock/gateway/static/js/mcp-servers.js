/** McpServersView: programs whose tools can be used over MCP, how far each may go, and classing what they offer. #/servers[/ID] */
import { html, nothing } from 'lit';
import { api } from './api.js';
import { PageElement } from './page-element.js';
import { copyButton } from './copy-button.js';
import { confirmed, showError } from './dialog.js';
import { announce } from './session-store.js';
import { t } from './i18n.js';
import { serverFacts, stateBadges, missingRequirements } from './servers/server-summary.js';
import { proposalForm, proposalView, waitingTools } from './servers/proposal-form.js';
import { emptyToolClass, givable, toolView } from './servers/tool-view.js';
import { empty, icon, loading, problem } from './views/components.js';

const ADD = 'interlock mcp add NAME --readable FOLDER -- COMMAND';
const CHANGES = ['mcp.tool_changed'];

class McpServersView extends PageElement {
  static properties = {
    route: { attribute: false },
    servers: { state: true },
    found: { state: true },
    looking: { state: true },
    failed: { state: true },
    refused: { state: true },
    forms: { state: true },
    proposal: { state: true },
    changes: { state: true },
    busy: { state: true },
  };

  #number = 0;

  constructor() {
    super();
    this.route = [];
    this.forms = {};
  }

  get id() {
    return this.route?.[0] ?? '';
  }

  get server() {
    return this.servers?.find(({ id }) => id === this.id) ?? null;
  }

  connectedCallback() {
    super.connectedCallback();
    this.until(api.onState((state) => state === 'open' && this.#load()));
    const again = () => document.visibilityState === 'visible' && this.servers && this.#list();
    document.addEventListener('visibilitychange', again);
    this.until(() => document.removeEventListener('visibilitychange', again));
  }

  willUpdate(changed) {
    if (!changed.has('route') || !this.hasUpdated) return;
    this.found = this.failed = this.refused = this.proposal = null;
    this.forms = {};
    this.#load();
  }

  async #load() {
    await this.#list();
    if (this.server && !this.server.closed && !this.server.unavailable) await this.#look();
  }

  async #list() {
    const number = ++this.#number;
    try {
      const { servers } = await api.request('mcp.list');
      if (number !== this.#number) return;
      this.servers = servers;
      this.failed = null;
    } catch (error) {
      if (number === this.#number) this.failed = error;
    }
  }

  /** Starts the server where it does not run, and asks what it offers. */
  async #look() {
    const { id } = this;
    this.looking = true;
    this.refused = null;
    try {
      const found = await api.request('mcp.inspect', { server: id });
      if (id !== this.id) return;
      this.found = found;
      this.servers = this.servers.map((each) => (each.id === id ? found : each));
      this.#whenChanged(id);
    } catch (error) {
      if (id === this.id) this.refused = error;
    }
    this.looking = false;
  }

  /** When definitions changed; a help, so nothing is said when it cannot be had. */
  async #whenChanged(id) {
    try {
      const { events } = await api.request('events.tail', { kinds: CHANGES, limit: 200 });
      const mine = events.filter(({ payload }) => payload?.server === id);
      this.changes = new Map(mine.map((event) => [event.payload.tool, event]));
    } catch {
      this.changes = new Map();
    }
  }

  // -- what people do --

  async #allow(tool, form) {
    this.busy = tool.tool;
    try {
      const { effect, modes, group } = form;
      const params = { server: this.id, tool: tool.tool, effect, modes, group, hash: tool.hash };
      const answer = await api.request('mcp.allow', params);
      this.#put(answer.tool);
      this.#close(tool);
      announce(t('servers.classed_as', { tool: tool.tool, effect: t(`servers.effect.${effect}`) }));
      await this.#list();
    } catch (error) {
      this.forms = { ...this.forms, [tool.tool]: { ...form, error } };
      if (error.code === 'MCP_TOOL_CHANGED') await this.#look();
    }
    this.busy = '';
  }

  /** All that was ticked, as it was shown: where one definition has changed, none is classed. */
  async #classify(tools) {
    const { id } = this;
    this.busy = 'all';
    try {
      const answer = await api.request('mcp.classify', { server: id, tools });
      if (id === this.id) {
        this.proposal = null;
        answer.tools.forEach((tool) => this.#put(tool));
        announce(t('servers.all_saved', { n: answer.tools.length }));
        await this.#list();
      }
    } catch (error) {
      const isChanged = error.code === 'MCP_TOOL_CHANGED';
      if (isChanged) await this.#look();
      if (id === this.id) {
        this.proposal = isChanged ? { ...proposalForm(this.server, this.found), wrong: t('servers.all_changed') }
          : { ...this.proposal, error };
      }
    }
    this.busy = '';
  }

  #put(tool) {
    const offered = this.found.offered.map((each) => (each.tool === tool.tool ? tool : each));
    this.found = { ...this.found, offered };
  }

  async #unclass(tool) {
    const sure = await confirmed({
      title: t('servers.unclass_title', { tool: tool.tool }),
      text: html`<p>${t('servers.unclass_text')}</p>`,
      confirm: t('servers.unclass'),
      danger: true,
    });
    if (!sure) return;
    await this.#doing(() => api.request('mcp.remove', { server: this.id, tool: tool.tool }));
    await this.#load();
  }

  async #remove() {
    const sure = await confirmed({
      title: t('servers.remove_title', { server: this.id }),
      text: html`<p>${t('servers.remove_text')}</p>`,
      confirm: t('servers.remove'),
      danger: true,
    });
    if (!sure) return;
    if (await this.#doing(() => api.request('mcp.remove', { server: this.id }))) location.hash = '#/servers';
  }

  async #doing(act) {
    try {
      await act();
      return true;
    } catch (error) {
      showError(error);
      return false;
    }
  }

  #close(tool) {
    const { [tool.tool]: _, ...others } = this.forms;
    this.forms = others;
  }

  // -- looks --

  render() {
    return html`<div class="view v-view s-servers">${this.id ? this.#one() : this.#all()}</div>`;
  }

  #all() {
    return html`<header class="view-head"><div class="grow">
        <h1>${t('servers.title')}</h1>
        <p class="muted">${t('servers.intro')}</p>
      </div></header>
      ${this.failed ? problem(this.failed, () => this.#list()) : !this.servers ? loading()
        : this.servers.length ? this.#cards() : empty(t('servers.none'), t('servers.none_text'), addCommand())}`;
  }

  #cards() {
    return html`<ul class="r-cards">${this.servers.map((server) => html`<li class="card s-card">
        <div class="s-card-head"><h2 class="grow"><a href="#/servers/${server.id}">${server.id}</a></h2>${stateBadges(server)}</div>
        <p class="s-target"><code>${server.url || server.command.join(' ')}</code></p>
        ${toolCounts(server.tools)}
        ${missingRequirements(server)}
      </li>`)}</ul>
      <section class="s-add"><h2>${t('servers.add')}</h2><p class="muted">${t('servers.add_text')}</p>${addCommand()}</section>`;
  }

  #one() {
    const { server } = this;
    return html`<header class="view-head"><div class="grow">
        <p class="small"><a href="#/servers">${t('servers.title')}</a></p>
        <h1>${this.id}</h1>
      </div>
      ${server ? html`<button type="button" class="btn danger" @click=${() => this.#remove()}>${icon('trash')}${t('servers.remove')}</button>` : nothing}</header>
      ${this.failed ? problem(this.failed, () => this.#load()) : !this.servers ? loading()
        : server ? this.#about(server) : empty(t('servers.unknown'), t('servers.unknown_text'), html`<p><a class="btn" href="#/servers">${t('servers.to_all')}</a></p>`)}`;
  }

  #about(server) {
    return html`<section class="card s-about" aria-label=${t('servers.about')}>
        <div class="row wrap">${stateBadges(server)}</div>
        ${serverFacts(server, this.found)}
      </section>
      ${missingRequirements(server)}
      ${server.closed || server.unavailable ? nothing : this.#offered(server)}`;
  }

  #offered(server) {
    return html`<section class="s-offered" aria-labelledby="server-tools">
      <div class="s-card-head"><h2 class="grow" id="server-tools">${t('servers.offers')}</h2>
        <button type="button" class="btn tiny" ?disabled=${this.looking} @click=${() => this.#look()}>${icon('retry')}${t('servers.look_again')}</button></div>
      <p class="hint">${t('servers.offers_hint')}</p>
      ${this.refused ? problem(this.refused, () => this.#look()) : nothing}
      ${this.looking && !this.found ? loading(t('servers.starting')) : nothing}
      ${this.found ? this.#tools(server) : nothing}
    </section>`;
  }

  #tools(server) {
    const { offered } = this.found;
    if (!offered.length) return html`<p class="muted">${t('servers.offers_nothing')}</p>`;
    return html`${this.#proposal(server)}<ul class="s-tools">${offered.map((tool) => toolView(tool, {
      server,
      form: this.forms[tool.tool],
      changed: this.changes?.get(tool.tool),
      busy: this.busy === tool.tool,
      open: () => (this.forms = { ...this.forms, [tool.tool]: emptyToolClass(tool) }),
      close: () => this.#close(tool),
      edit: (change) => (this.forms = { ...this.forms, [tool.tool]: { ...this.forms[tool.tool], error: null, ...change } }),
      allow: (form) => this.#allow(tool, form),
      unclass: () => this.#unclass(tool),
    }))}</ul>`;
  }

  /** Where more than one tool waits, and this deployment opens a mode that they can have. */
  #proposal(server) {
    const { found, proposal: form } = this;
    if (form) {
      return proposalView({
        server,
        found,
        form,
        busy: this.busy === 'all',
        edit: (change) => (this.proposal = { ...this.proposal, ...change }),
        confirm: (tools) => this.#classify(tools),
        close: () => (this.proposal = null),
      });
    }
    const n = waitingTools(found).length;
    if (n < 2 || !givable(server, 'read').length) return nothing;
    return html`<p><button type="button" class="btn" @click=${() => (this.proposal = proposalForm(server, found))}>${t('servers.all_open', { n })}</button></p>`;
  }
}

function toolCounts(tools) {
  const found = Object.entries(tools);
  if (!found.length) return html`<p class="small muted">${t('servers.not_looked')}</p>`;
  return html`<p class="row wrap">${found.map(([state, n]) => html`<span class="badge ${TONES[state] ?? ''}">${n} ${t(`servers.state.${state}`)}</span>`)}</p>`;
}

const TONES = { classed: 'ok', changed: 'denied', unusable: 'error' };

function addCommand() {
  return html`<div class="r-command"><pre>${ADD}</pre>${copyButton(() => ADD)}</div>`;
}

customElements.define('il-servers', McpServersView);
