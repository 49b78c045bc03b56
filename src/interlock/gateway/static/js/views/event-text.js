/** Events in words. Unknown kinds, from another version, show their kind and fields. */
import { formatDuration, formatNumber, hasText, t, translated } from '../i18n.js';
import { joined, layerName } from './components.js';

const LONG = 160;

export function short(value, most = LONG) {
  const text = typeof value === 'string' ? value : JSON.stringify(value) ?? '';
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** The arguments of a call on one line: path=src/a.py find=Hello */
export function argumentsLine(value) {
  if (!value || typeof value !== 'object') return short(value ?? '');
  return short(Object.entries(value).map(([name, each]) => `${name}=${short(each, 60)}`).join(' '));
}

/** The tool or the model that a circuit is about; events of older versions name neither. */
const circuitOf = (p) => p.tool_name || p.model || t('event.circuit.unnamed');

/** A refused call has no other event that tells its arguments. */
function withArguments(words, { arguments: given }) {
  return [words, argumentsLine(given)].filter(Boolean).join(' · ');
}

const WORDS = {
  'task.queued': (p) => [t('event.task'), t('event.task.by', { who: p.who })],
  'task.started': (p) => [t('event.attempt', { n: formatNumber(p.attempt) }), p.worker],
  'task.waiting': () => [t('event.task.waiting'), ''],
  'agent.started': (p) => [p.agent ? t('event.agent_named', { agent: p.agent }) : t('event.agent'), p.model],
  'turn.completed': (p) => [t('event.turn', { n: formatNumber(p.turn) }), p.tool_choice === 'required' ? t('event.turn.required') : ''],
  'tool_call.started': (p) => [p.tool_name, argumentsLine(p.arguments)],
  'tool_call.denied': (p) => [p.tool_name, withArguments(t('event.denied', { code: p.error_code, layer: layerName(p.layer) }), p)],
  'tool_call.failed': (p) => [p.tool_name, withArguments(`${p.error_code}: ${short(translated(p.error ?? ''))}`, p)],
  'tool_call.restored': (p) => [t('event.restored'), short((p.paths ?? []).join(', '))],
  'message.appended': (p) => [t(`event.message.${p.role}`), ''],
  'control.limit_reached': (p) => [t('event.limit', { limit: p.limit }), short(p.sentence ?? '')],
  'progress.stalled': (p) => [t('event.stalled', { tool: p.tool_name, n: p.times }), ''],
  'retry.scheduled': (p) => [t('event.retry', { n: formatNumber(p.attempt) }),
    t('event.retry.in', { time: formatDuration(p.delay_seconds * 1000), kind: p.error_class })],
  'retry.exhausted': (p) => [t('event.retry.exhausted', { n: p.attempts }), short(p.error ?? '')],
  'circuit.opened': (p) => [t('event.circuit.opened', { what: circuitOf(p) }), t('event.circuit.why', { n: p.failures, kind: p.error_class })],
  'circuit.half_open': (p) => [t('event.circuit.half_open', { what: circuitOf(p) }), ''],
  'circuit.closed': (p) => [t('event.circuit.closed', { what: circuitOf(p) }), ''],
  'model.tool_choice_refused': (p) => [t('event.tool_choice_refused', { model: p.model, choice: p.tool_choice }), short(p.error ?? '')],
  'task.steered': (p) => [t('event.steered'), p.into],
  'turn.interrupted': (p) => [t('event.interrupted', { n: formatNumber(p.turn) }), p.model],
  'turn.discarded': (p) => [t('event.discarded', { n: formatNumber(p.turn) }), short(p.error ?? '')],
  'model.fallback': (p) => [t('event.fallback', { model: p.to_model }), short(`${p.from_model}: ${p.error ?? ''}`)],
  'context.compacted': (p) => [t('event.compacted'),
    t('event.compacted.by', { before: formatNumber(p.tokens_before), after: formatNumber(p.tokens_after) })],
  'session.created': (p) => [t('event.session.created'), `${p.mode} · ${p.opened_by}`],
  'session.mode_changed': (p) => [t('event.mode_changed'), `${p.from_mode} → ${p.to_mode} · ${p.who}`],
  'session.model_changed': (p) => [t('event.model_changed'),
    `${p.from_model || t('event.usual')} → ${p.to_model || t('event.usual')} · ${p.who}`],
  'session.renamed': (p) => [t('event.renamed'), short(p.title)],
  'session.archived': (p) => [t(p.archived ? 'event.archived' : 'event.unarchived'), p.who],
  'session.deleted': (p) => [t('event.deleted'), p.who],
  'undo.started': (p) => [t('event.undo'), p.who],
  'undo.finished': (p) => [t('event.undone', { n: p.restored?.length ?? 0 }), (p.restored ?? []).join(', ')],
  'run.started': (p) => [t('event.run', { workflow: p.workflow }), `${p.mode} · ${p.who}`],
  'run.paused': (p) => [t('event.run.paused'), short(p.reason || p.who)],
  'run.resumed': (p) => [t('event.run.resumed'), p.who],
  'run.stopped': (p) => [t('event.run.stopped'), [p.who, translated(p.reason)].filter(Boolean).join(' · ')],
  'run.finished': (p) => [t(p.status === 'done' ? 'event.run.done' : 'event.run.failed'), short(p.reason || p.outcome)],
  'node.entered': (p) => [`${p.frame}${p.node}`, nodeLine(p)],
  'node.decided': (p) => [t('event.node.decided', { node: p.node }), short(`${p.outcome} ${p.summary}`)],
  'node.completed': (p) => [t('event.node.completed', { node: p.node }), [p.label || p.outcome, p.to].filter(Boolean).join(' → ')],
  'node.failed': (p) => [t('event.node.failed', { node: p.node }), short(p.reason)],
  'plan.build_started': (p) => [t('event.plan'), p.who],
  'mcp.server_added': (p) => [t('event.mcp.added', { server: p.server }), p.who],
  'mcp.server_removed': (p) => [t('event.mcp.removed', { server: p.server }), p.who],
  'mcp.server_started': (p) => [t('event.mcp.started', { server: p.server }), short(p.calls_itself)],
  'mcp.server_failed': (p) => [t('event.mcp.failed', { server: p.server }), short(p.reason)],
  'mcp.tools_listed': (p) => [t('event.mcp.listed', { server: p.server }), short([...p.added.map((name) => `+${name}`), ...p.gone.map((name) => `−${name}`)].join(' '))],
  'mcp.tool_changed': (p) => [t('event.mcp.changed', { tool: p.name }), p.was_classed ? t('event.mcp.was_classed') : ''],
  'mcp.name_clash': (p) => [t('event.mcp.clash', { tool: p.name }), p.server],
  'mcp.tool_classed': (p) => [t(p.modes.length ? 'event.mcp.classed' : 'event.mcp.unclassed', { tool: p.name }), [p.effect, p.modes.join(', '), p.who].filter(Boolean).join(' · ')],
  'settings.changed': (p) => [t('event.settings', { version: p.version, who: p.who }), settingsLine(p.changes)],
  'sandbox.probed': (p) => [t(p.holds ? 'event.sandbox.holds' : 'event.sandbox.fails', { backend: p.backend }), triesLine(p.rows)],
  'tools.unavailable': (p) => [t('event.unavailable', { tools: short(p.tools.join(', ')) }), short(translated(p.reason))],
  'authority.compiled': (p) => [t('event.authority', { mode: p.mode }),
    p.allowed?.length ? t('event.authority.tools', { n: p.allowed.length, tools: short(p.allowed.join(', ')) }) : t('event.authority.none')],
  'auth.login': (p) => [t('event.login', { name: p.name }), p.who],
  'auth.login_refused': (p) => [t('event.login_refused'), p.reason],
  'auth.logout': (p) => [t('event.logout', { name: p.name }), p.who],
  'auth.token_added': (p) => [t('event.token_added', { name: p.name }), p.who],
  'auth.token_revoked': (p) => [t('event.token_revoked', { name: p.name }),
    [p.who, p.cancelled_tasks ? t('event.token_revoked.tasks', { n: p.cancelled_tasks }) : ''].filter(Boolean).join(' · ')],
  'auth.code_issued': (p) => [t('event.code_issued'), p.who],
  'log.checkpoint': (p) => [t('event.checkpoint'), t('event.checkpoint.heads', { n: p.heads?.length ?? 0 })],
};

/** @returns {[string, string]} what it is, and more about it */
export function describeEvent(event) {
  const words = WORDS[event.kind];
  const [title, more] = words ? words(event.payload) : [kindName(event.kind), argumentsLine(event.payload)];
  return event.is_erased ? [title, t('event.erased')] : [title, more];
}

export function kindName(kind) {
  return hasText(`event.kind.${kind}`) ? t(`event.kind.${kind}`) : kind;
}

/** What a row is about, from all its events. @param {import('./timeline-rows.js').Row} row @returns {[string, string]} */
export function describeRow(row) {
  const [title, more] = describeEvent(row.events[0]);
  const find = (kind) => row.events.find((event) => event.kind === kind)?.payload;
  const asked = find('ask_user.asked');
  if (asked) return [title, short(asked.question?.message ?? asked.question?.title ?? asked.question ?? '')];
  const denied = row.events.length > 1 && find('tool_call.denied');
  if (denied) return [title, t('event.denied', { code: denied.error_code, layer: layerName(denied.layer) })];
  const failed = row.events.length > 1 && (find('tool_call.failed') ?? find('agent.failed'));
  if (failed) return [title, short(`${failed.error_code ?? failed.error_class}: ${translated(failed.error) ?? ''} ${more}`)];
  const ended = find('task.finished') ?? find('task.cancelled');
  if (ended?.reason) return [title, short(translated(ended.reason))];
  return [title, more];
}

function nodeLine({ node_kind: kind, visit }) {
  const words = hasText(`runs.kind.${kind}`) ? t(`runs.kind.${kind}`) : kind;
  return visit > 1 ? `${words} · ${t('runs.visit_n', { n: visit })}` : words;
}

function settingsLine(changes) {
  const said = (value) => (value === null ? t('settings.no_limit')
    : typeof value === 'boolean' ? t(value ? 'settings.on' : 'settings.off')
      : Array.isArray(value) ? joined(value.map(String)) || t('settings.none') : String(value));
  return Object.entries(changes ?? {})
    .map(([path, [from, to]]) => `${path.replace(/^tools\./, '')}: ${said(from)} → ${said(to)}`).join('; ');
}

function triesLine(rows) {
  const held = (rows ?? []).filter(([, holds]) => holds).length;
  return t('event.sandbox.tries', { held, n: rows?.length ?? 0 });
}
