/** Runs, the newest first, each a way to its own page. */
import { html, nothing } from 'lit';
import { t } from '../i18n.js';
import { time } from '../views/components.js';

export const RUN_BADGES = { running: 'info', paused: 'warn', done: 'ok', failed: 'error', stopped: '' };

/** @param {any[]} runs @param {{withWorkflow: boolean}} about */
export function runsView(runs, { withWorkflow }) {
  return html`<section class="r-runs" aria-labelledby="runs-recent">
    <h2 id="runs-recent">${t('runs.recent')}</h2>
    ${runs.length
      ? html`<ul class="v-tasks r-run-list">${runs.map((run) => html`<li>
          <a href="#/runs/${run.run_id}">
            <span class="badge ${RUN_BADGES[run.status] ?? ''}">${t(`runs.status.${run.status}`)}</span>
            <span class="grow clip">${withWorkflow ? html`<strong>${run.workflow}</strong> ` : nothing}${run.input || html`<span class="muted">${t('runs.no_input')}</span>`}</span>
            <code class="small muted v-task-mode">${run.mode}</code>
            <span class="small muted v-task-time">${time(run.created_us)}</span>
          </a></li>`)}</ul>`
      : html`<p class="muted">${t(withWorkflow ? 'runs.no_runs' : 'runs.no_runs_of')}</p>`}
  </section>`;
}
