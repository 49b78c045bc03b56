/** The graph of a workflow, and the same as a list for screen readers. */
import { html, nothing, svg } from 'lit';
import { icon } from '../views/components.js';
import { hasText, t } from '../i18n.js';
import { layoutGraph } from './graph-layout.js';

const LONG_LABEL = 26;
const LONG_TITLE = 24;
/** Beside other things there is room for so much; what is wider has the whole width. */
const WIDE = 520;
const PLAIN = { state: 'none', completed: 0, isCurrent: false };
const ICONS = { done: 'check', running: 'activity', waiting: 'question', failed: 'error', cancelled: 'stop', ready: 'clock' };

const clipped = (text, most) => ([...text].length > most ? `${[...text].slice(0, most - 1).join('')}…` : text);

/** What stands at an edge, in full. */
export function edgeLabel({ label, condition, default: isDefault }) {
  return [label, condition, isDefault && !label ? t('runs.otherwise') : ''].filter(Boolean).join(' · ');
}

/** A node's state in words. @param {{state: string, completed: number}} standing */
export function stateLabel({ state, completed }) {
  const words = t(`runs.node.${state}`);
  if (state === 'done') return completed > 1 ? t('runs.node.done_n', { n: completed }) : words;
  return completed && state !== 'none' ? `${words} · ${t('runs.node.done_n', { n: completed })}` : words;
}

/**
 * @param {any} graph
 * @param {{states?: Map<string, any>, times?: (edge: any) => number}} [run] how a run of it stands; without, it is a plan
 */
export function graphView(graph, { states, times } = {}) {
  const layout = layoutGraph({ ...graph, edges: waysOf(graph.edges) }, (way) => clipped(wayWords(way), LONG_LABEL));
  const { left, width, height, entry } = layout;
  return html`<div class="g-box" tabindex=${width > WIDE ? 0 : nothing} role=${width > WIDE ? 'group' : nothing}
      aria-label=${width > WIDE ? t('runs.graph', { name: graph.name }) : nothing}>
    <svg class="g-graph ${width > WIDE ? 'is-wide' : ''} ${states ? 'is-run' : ''}" viewBox="${left} 0 ${width} ${height}" width=${width} height=${height}
      role="img" aria-label=${t('runs.graph_label', { name: graph.name, n: graph.nodes.length })}>
      ${layout.edges.map((drawn) => edgeView(drawn, drawn.edge.edges.some((edge) => times?.(edge))))}
      <path class="g-entry" d="M${entry.x} 6V${entry.y - 4}" /><circle class="g-entry-dot" cx=${entry.x} cy="6" r="4" />
      ${layout.nodes.map((placed) => nodeView(placed, states?.get(placed.node.name) ?? PLAIN))}
      ${layout.edges.filter(({ words }) => words).map(labelView)}
    </svg>
  </div>`;
}

/** Edges between the same two nodes are drawn as one. */
function waysOf(edges) {
  const ways = Map.groupBy(edges, ({ from, to }) => `${from} ${to}`);
  return [...ways.values()].map((same) => ({ from: same[0].from, to: same[0].to, edges: same }));
}

/** @param {import('./graph-layout.js').Edge} way */
const wayWords = ({ edges }) => edges.map(edgeLabel).filter(Boolean).join(' / ');

function edgeView({ edge, path, head, isBack }, isTaken) {
  return svg`<g class="g-edge ${isTaken ? 'is-taken' : ''} ${isBack ? 'is-back' : ''}" data-edge="${edge.from} ${edge.to}">
    <path d=${path} /><path class="g-head" d=${head} />
  </g>`;
}

function labelView({ edge, words, at }) {
  return svg`<text class="g-label" x=${at.x} y=${at.y} dy="0.35em" text-anchor=${at.anchor}><title>${wayWords(edge)}</title>${words}</text>`;
}

function nodeView({ node, x, y, width, height }, standing) {
  const { state, isCurrent } = standing;
  const shown = state === 'none' ? kindWords(node) : stateLabel(standing);
  const small = height < 40;
  return svg`<g class="g-node is-${node.kind} state-${state} ${isCurrent ? 'is-current' : ''}" data-node=${node.name} data-state=${state}
    transform="translate(${x} ${y})">
    <title>${node.title || node.name}: ${state === 'none' ? kindWords(node) : stateLabel(standing)}</title>
    ${shapeOf(node.kind, width, height)}
    <text class="g-title" y=${small ? 0 : -8} dy="0.35em">${clipped(node.title || node.name, LONG_TITLE)}</text>
    ${small ? nothing : svg`<text class="g-state" y="11" dy="0.35em">${MARKS[state] ?? ''}${shown}</text>`}
  </g>`;
}

/** Beside the words: what is seen from afar, without colours. */
const MARKS = { done: '✓ ', running: '▶ ', waiting: '? ', failed: '✕ ', cancelled: '■ ', ready: '⏸ ' };

function kindWords(node) {
  if (node.kind === 'subworkflow') return t('runs.kind_of', { name: node.workflow });
  if (node.kind === 'step' && node.agent) return node.agent;
  return hasText(`runs.kind.${node.kind}`) ? t(`runs.kind.${node.kind}`) : node.kind;
}

function shapeOf(kind, width, height) {
  const [x, y] = [width / 2, height / 2];
  const rect = (by, round, name = 'g-shape') =>
    svg`<rect class=${name} x=${by - x} y=${by - y} width=${width - 2 * by} height=${height - 2 * by} rx=${Math.max(round - by, 0)} />`;
  switch (kind) {
    case 'decision':
      return svg`<path class="g-shape" d="M${-x} 0L${22 - x} ${-y}H${x - 22}L${x} 0L${x - 22} ${y}H${22 - x}Z" />`;
    case 'merge':
      return svg`<path class="g-shape" d="M${-x} ${-y}H${x}L${x - 18} ${y}H${18 - x}Z" />`;
    case 'end':
      return svg`${rect(0, y)}${rect(4, y, 'g-inner')}`;
    case 'subworkflow':
      return svg`${rect(0, 4)}<path class="g-inner" d="M${9 - x} ${-y}V${y}M${x - 9} ${-y}V${y}" />`;
    default:
      return rect(0, 9);
  }
}

// -- in words ------------------------------------------------------------------------------------------------

/**
 * The same nodes, with where they lead and what their briefs say.
 * @param {any} graph @param {{states?: any, times?: any}} [standing]
 */
export function nodeList(graph, { states, times } = {}) {
  return html`<details class="g-words">
    <summary>${t('runs.as_list')}</summary>
    <ol class="g-list">${graph.nodes.map((node) => nodeItem(node, graph, states?.get(node.name), times))}</ol>
  </details>`;
}

function nodeItem(node, graph, standing, times) {
  const edges = graph.edges.filter(({ from }) => from === node.name);
  return html`<li data-node=${node.name}>
    <p><strong>${node.title || node.name}</strong> ${node.title ? html`<code>${node.name}</code>` : nothing}
      <span class="muted small">${hasText(`runs.kind.${node.kind}`) ? t(`runs.kind.${node.kind}`) : node.kind}${node.workflow ? html` <code>${node.workflow}</code>` : nothing}${node.agent ? ` · ${node.agent}` : ''}${node.mode ? ` · ${node.mode}` : ''}</span>
      ${standing ? html`<span class="badge ${NODE_BADGES[standing.state] ?? ''}">${ICONS[standing.state] ? icon(ICONS[standing.state]) : nothing}${stateLabel(standing)}</span>` : nothing}
      ${standing?.isCurrent ? html`<span class="badge info">${t('runs.here')}</span>` : nothing}</p>
    ${edges.length ? html`<ul class="small">${edges.map((edge) => html`<li>${t('runs.leads', { to: nodeTitle(graph, edge.to) })}
      ${edgeLabel(edge) ? html`<code>${edgeLabel(edge)}</code>` : nothing}
      ${times?.(edge) ? html`<span class="muted">${t('runs.times', { n: times(edge) })}</span>` : nothing}</li>`)}</ul>` : nothing}
    ${node.brief ? html`<details class="g-brief"><summary class="small">${t('runs.brief')}</summary><pre tabindex="0" aria-label=${t('runs.brief')}>${node.brief}</pre></details>` : nothing}
  </li>`;
}

export const NODE_BADGES = { done: 'ok', running: 'info', waiting: 'warn', failed: 'error', cancelled: 'error', ready: '' };

export function nodeTitle(graph, name) {
  return graph?.nodes.find((node) => node.name === name)?.title || name;
}
