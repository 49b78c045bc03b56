/** SettingsView → Tools: the system policy, below the operator's ceiling, with its effect shown before it is stored. */
import { html, nothing } from 'lit';
import { api } from './api.js';
import { PageElement } from './page-element.js';
import { formatNumber, inLanguage, t } from './i18n.js';
import { changes, complaints, controlId, fieldsOf, formValues, isDefault, mistakes, patchOf } from './views/settings-form.js';
import { renderChanges } from './views/settings-changes.js';
import { renderField } from './views/settings-fields.js';
import { debounced, icon, loading, problem, time } from './views/components.js';

/** What was typed and not stored, kept while another view is open. */
let kept = null;

class SettingsView extends PageElement {
  static properties = {
    route: { attribute: false },
    stored: { state: true },
    form: { state: true },
    matrix: { state: true },
    servers: { state: true },
    preview: { state: true },
    wrong: { state: true },
    fault: { state: true },
    failed: { state: true },
    said: { state: true },
    busy: { state: true },
    newer: { state: true },
    last: { state: true },
  };

  #look = debounced(() => this.#preview(), 250);
  #asked = 0;

  constructor() {
    super();
    this.wrong = {};
    this.servers = [];
  }

  connectedCallback() {
    super.connectedCallback();
    const check = () => document.visibilityState === 'visible' && this.#compare();
    addEventListener('focus', check);
    document.addEventListener('visibilitychange', check);
    this.until(() => removeEventListener('focus', check));
    this.until(() => document.removeEventListener('visibilitychange', check));
    const leaving = (event) => this.#changes().length && event.preventDefault();
    addEventListener('beforeunload', leaving);
    this.until(() => removeEventListener('beforeunload', leaving));
    this.until(api.onFrame((frame) => frame.data?.kind === 'settings.changed' && this.#compare()));
    this.until(api.onState((state) => state === 'open' && (this.stored ? this.#compare() : this.#load())));
    this.until(() => this.#look.cancel());
    if (api.state !== 'open') this.#load();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    if (!this.stored) return;
    kept = this.#changes().length || Object.keys(mistakes(this.#fields(), this.form)).length
      ? { form: this.form, version: this.stored.version } : null;
  }

  async #load() {
    try {
      const [stored, matrix] = await Promise.all([api.request('settings.get'), api.request('policy.matrix')]);
      this.failed = null;
      this.stored = stored;
      this.matrix = matrix;
      this.form = kept?.form ?? this.#values(stored.settings);
      if (kept && kept.version !== stored.version) this.said = { kind: 'warn', text: t('settings.draft_older') };
      kept = null;
      this.#look();
      this.#whoWasIt();
      this.#knownServers();
    } catch (error) {
      this.failed = error;
    }
  }

  /** The servers to choose from; a help, so nothing is said when it cannot be had. */
  async #knownServers() {
    try {
      this.servers = (await api.request('mcp.list')).servers.map(({ id }) => id);
    } catch {
      this.servers = [];
    }
  }

  /** Who changed them last; a help, so nothing is said when it cannot be had. */
  async #whoWasIt() {
    try {
      const { events } = await api.request('events.tail', { kinds: ['settings.changed'], limit: 1 });
      this.last = events.at(-1);
    } catch {
      this.last = null;
    }
  }

  async #compare() {
    if (!this.stored || this.busy) return;
    let found;
    try {
      found = await api.request('settings.get');
    } catch {
      return;
    }
    if (found.version === this.stored.version || this.busy) return;
    await this.#whoWasIt();
    if (this.#changes().length) {
      this.newer = found;
      return;
    }
    await this.#take(found, this.#values(found.settings));
    this.said = { kind: 'info', text: t('settings.changed_elsewhere', { version: found.version, who: this.#author() }) };
  }

  #author() {
    return this.last?.payload?.who ?? t('settings.another_user');
  }

  async #take(found, form) {
    this.stored = found;
    this.form = form;
    this.newer = null;
    this.wrong = {};
    this.matrix = await api.request('policy.matrix').catch(() => this.matrix);
    this.#look();
  }

  /** Theirs, with what was changed here put on top of it. */
  #onTop() {
    const mine = Object.fromEntries(this.#changes().map(({ field: { path } }) => [path, this.form[path]]));
    this.#take(this.newer, { ...this.#values(this.newer.settings), ...mine });
  }

  #fields() {
    return fieldsOf(this.stored.form);
  }

  #values(document) {
    return formValues(this.#fields(), document);
  }

  #changes() {
    return this.stored ? changes(this.#fields(), this.form, this.stored.settings, this.stored.defaults) : [];
  }

  #set(path, value) {
    this.form = { ...this.form, [path]: value };
    const { [path]: _, ...others } = this.wrong;
    this.wrong = others;
    this.said = null;
    this.#look();
  }

  async #preview() {
    const list = this.#changes();
    const number = ++this.#asked;
    this.fault = null;
    if (!list.length) {
      this.preview = null;
      return;
    }
    try {
      const preview = await api.request('settings.preview', { patch: patchOf(list) });
      if (number === this.#asked) this.preview = preview.matrix;
      if (number === this.#asked) this.wrong = {};
    } catch (error) {
      if (number === this.#asked) this.#refused(error);
    }
  }

  #refused(error) {
    this.preview = null;
    if (error.code !== 'INVALID_SETTINGS' && error.code !== 'INVALID_PARAMS') {
      this.fault = error;
      return;
    }
    const { '': rest, ...wrong } = complaints(this.#fields(), error.message);
    this.wrong = wrong;
    if (rest) this.fault = Object.assign(new Error(rest), { code: '' });
  }

  async #save(event) {
    event?.preventDefault();
    const local = mistakes(this.#fields(), this.form);
    if (Object.keys(local).length) {
      this.#toFirstMistake(local);
      return;
    }
    const list = this.#changes();
    if (!list.length || this.newer) return;
    this.busy = true;
    this.#look.cancel();
    try {
      const { version, settings } = await api.request('settings.update', { patch: patchOf(list) });
      await this.#take({ ...this.stored, version, settings }, this.#values(settings));
      this.preview = null;
      this.said = { kind: 'ok', text: t('settings.saved', { version }) };
      this.#whoWasIt();
    } catch (error) {
      this.#refused(error);
      this.#toFirstMistake(this.wrong);
    } finally {
      this.busy = false;
    }
  }

  async #toFirstMistake(found) {
    this.requestUpdate();
    await this.updateComplete;
    const first = this.#fields().find(({ path }) => path in found);
    if (first) {
      const field = /** @type {HTMLElement} */ (this.querySelector(`#${controlId(first)}`));
      field?.focus();
    }
  }

  #defaults() {
    this.form = this.#values(this.stored.defaults);
    this.wrong = {};
    this.said = null;
    this.#look();
  }

  #discard() {
    this.form = this.#values(this.stored.settings);
    this.wrong = {};
    this.said = null;
    this.#look();
  }

  render() {
    return html`<div class="view v-view" aria-busy=${!this.stored && !this.failed}>
      <header class="view-head">
        <div class="grow">
          <h1>${t('settings.title')}</h1>
          <p class="muted">${t('settings.intro')}</p>
        </div>
        ${this.stored ? this.#version() : nothing}
      </header>
      ${this.failed ? problem(this.failed, () => this.#load()) : this.stored ? this.#body() : loading()}
    </div>`;
  }

  #version() {
    const { version } = this.stored;
    if (!version) return html`<p class="small muted">${t('settings.version_0')}</p>`;
    return html`<p class="small muted">
      <a href="#/activity/system">${t('settings.version', { version: formatNumber(version) })}</a>
      ${this.last?.payload?.version === version
        ? html` · ${t('settings.by', { who: this.last.payload.who })} · ${time(this.last.time_us)}` : nothing}
    </p>`;
  }

  #body() {
    const list = this.#changes();
    const local = mistakes(this.#fields(), this.form);
    const wrong = { ...this.wrong, ...Object.fromEntries(Object.entries(local).map(([path, key]) => [path, t(key)])) };
    return html`
      ${this.newer ? this.#conflict() : nothing}
      <form class="v-settings" novalidate @submit=${this.#save}>
        <div class="v-settings-fields">${this.stored.form.map((group) => this.#group(group, wrong))}</div>
        <aside class="v-settings-side card ${list.length || this.said ? '' : 'is-idle'}" aria-labelledby="settings-effect">
          <h2 id="settings-effect">${t('settings.effect')}</h2>
          ${renderChanges({ list, wrong, before: this.matrix, after: this.preview, fault: this.fault })}
          ${this.#actions(list, wrong)}
        </aside>
      </form>`;
  }

  #group(group, wrong) {
    return html`<fieldset class="card v-group" aria-describedby="settings-group-${group.id}">
      <legend><h2>${inLanguage(group.label)}</h2></legend>
      <p class="hint" id="settings-group-${group.id}">${inLanguage(group.hint)}</p>
      ${group.fields.filter(({ within }) => !within || this.form[within]).map((field) =>
        renderField(field, {
          raw: this.form[field.path],
          stored: this.stored,
          wrong: wrong[field.path],
          tools: this.matrix?.tools ?? [],
          servers: this.servers,
          limits: this.matrix?.limits,
          set: (value) => this.#set(field.path, value),
        }),
      )}
    </fieldset>`;
  }

  #actions(list, wrong) {
    const bad = Object.keys(wrong).length;
    const atDefaults = isDefault(this.#fields(), this.form, this.stored.defaults);
    return html`<div class="v-actions">
      <div role="status" class="v-said">${this.said ? html`<p class="notice ${this.said.kind}">
        ${icon(this.said.kind === 'ok' ? 'check' : 'info')}<span>${this.said.text}</span></p>` : nothing}</div>
      <button class="btn primary" ?disabled=${!list.length || bad || this.busy || this.newer}>
        ${this.busy ? t('settings.saving') : list.length ? t('settings.save_n', { n: list.length }) : t('common.save')}
      </button>
      <button type="button" class="btn" ?disabled=${(!list.length && !bad) || this.busy} @click=${this.#discard}>
        ${t('settings.discard')}</button>
      <button type="button" class="btn ghost" ?disabled=${atDefaults || this.busy} @click=${this.#defaults}>
        ${t('settings.defaults')}</button>
    </div>`;
  }

  #conflict() {
    const { version } = this.newer;
    return html`<div class="notice warn v-conflict" role="alert">
      ${icon('warn')}
      <div class="grow stack">
        <p><strong>${t('settings.conflict', { version, who: this.#author() })}</strong> ${t('settings.conflict_hint')}</p>
        <div class="row wrap">
          <button type="button" class="btn" @click=${this.#onTop}>${t('settings.conflict_mine')}</button>
          <button type="button" class="btn" @click=${() => this.#take(this.newer, this.#values(this.newer.settings))}>
            ${t('settings.conflict_theirs')}</button>
        </div>
      </div>
    </div>`;
  }
}

customElements.define('il-settings', SettingsView);
