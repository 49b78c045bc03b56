/** What a run came to, one visit after another: what each decided, handed over, and did. */
import { html, nothing } from 'lit';
import { repeat } from 'lit/directives/repeat.js';
import { workView } from '../chat/task-view.js';
import { formatDuration, t } from '../i18n.js';
import { icon, time } from '../views/components.js';
import { NODE_BADGES, nodeTitle } from './graph-view.js';
import { visitState } from './node-states.js';

/**
 * @param {any} shown what runs.get gave
 * @param {{frames: any[], tasks: Map<string, any>, opened: Set<number>, toggle(number: number, open: boolean): void}} context
 */
export function visitList(shown, context) {
  return html`<ol class="r-visits">
    ${repeat(shown.visits, ({ number }) => number, (visit) => visitView(shown, visit, context))}
  </ol>`;
}

function visitView(shown, visit, context) {
  const state = visitState(shown, visit);
  const graph = context.frames.find(({ frame }) => frame === visit.frame)?.graph;
  const took = visit.ended_us && visit.kind === 'step' ? (visit.ended_us - visit.entered_us) / 1000 : null;
  return html`<li class="r-visit state-${state}" data-visit=${visit.number} data-node=${visit.node} data-state=${state}>
    <div class="r-visit-head">
      <strong>${nodeTitle(graph, visit.node)}</strong>
      ${visit.visit > 1 ? html`<span class="muted small">${t('runs.visit_n', { n: visit.visit })}</span>` : nothing}
      ${visit.retry_of ? html`<span class="muted small">${t('runs.retried')}</span>` : nothing}
      ${visit.frame ? html`<span class="muted small">${t('runs.in', { name: visit.frame.replace(/\/$/, '') })}</span>` : nothing}
      <span class="grow"></span>
      ${took === null ? nothing : html`<span class="muted small">${formatDuration(took)}</span>`}
      <span class="muted small">${time(visit.entered_us)}</span>
      <span class="badge ${NODE_BADGES[state] ?? ''}">${t(`runs.node.${state}`)}</span>
    </div>
    ${outcomeView(visit, graph)}
    ${visit.reason ? html`<p class="r-reason">${icon('warn')}<span>${visit.reason}</span></p>` : nothing}
    ${visit.summary ? html`<p class="r-summary">${visit.summary}</p>` : nothing}
    ${Object.entries(visit.artifacts).map(([name, text]) => artifactView(name, text))}
    ${visit.task_id ? workOf(shown, visit, context) : nothing}
  </li>`;
}

/** Only where there was something to decide: that a step is done stands beside it already. */
function outcomeView({ outcome, next, kind }, graph) {
  const said = outcome && outcome !== 'done' && kind !== 'end' ? html`<code>${outcome}</code>` : nothing;
  if (kind === 'end') return outcome ? html`<p class="small">${t('runs.outcome')} <code>${outcome}</code></p>` : nothing;
  if (!next) return said === nothing ? nothing : html`<p class="small">${said}</p>`;
  return html`<p class="small muted r-next">${said}${icon('arrow')}<span>${nodeTitle(graph, next)}</span></p>`;
}

function artifactView(name, text) {
  return html`<details class="r-artifact">
    <summary>${icon('file')}<span>${t('runs.artifact', { name })}</span></summary>
    <pre tabindex="0" aria-label=${t('runs.artifact', { name })}>${text}</pre>
  </details>`;
}

/** The step's own work, as a chat shows it. The question that it waits for stands above, and not here again. */
function workOf(shown, visit, { tasks, opened, toggle }) {
  const task = tasks.get(visit.task_id);
  const isOpen = opened.has(visit.number);
  return html`<details class="r-work" ?open=${isOpen} @toggle=${(event) => toggle(visit.number, event.target.open)}>
    <summary>${t('runs.work')}</summary>
    ${isOpen ? html`<div class="r-work-body">
      ${task ? workView({ ...task, blocks: task.blocks.filter((block) => block.question?.status !== 'open' || visit.status !== 'active') }) : html`<p class="muted small">${t('runs.work_earlier')}</p>`}
      <p class="small"><a href="#/activity/${shown.run.run_id}/${visit.task_id}">${t('runs.timeline_of_step')}</a></p>
    </div>` : nothing}
  </details>`;
}
