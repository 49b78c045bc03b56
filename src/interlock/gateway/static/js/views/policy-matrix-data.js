/** What the matrix says, and how two of them differ. */
import { formatBytes, formatNumber } from '../i18n.js';

export const MODES = ['chat_safe', 'chat', 'plan', 'coding'];
/** Who can say no, in the order in which they are asked. */
export const LAYERS = [
  'declaration', 'override', 'mode', 'environment', 'settings', 'agent', 'node', 'task', 'capability', 'arguments',
];
const GROUPS = ['world', 'ui', 'memory', 'code', 'media', 'mcp'];
const EFFECTS = ['read', 'ask', 'write', 'exec', 'special'];

const LIKELY = {
  ask_user: { type: 'confirmation', message: '' },
  bash: { cmd: '' },
  bash_readonly: { cmd: '' },
  current_time: { timezone: 'UTC' },
  delegate: { agent: '', task: '' },
  delete_file: { path: '' },
  edit_file: { path: '', find: '', replace: '' },
  find_files: { path: '.', name_pattern: '*' },
  generate_image: { prompt: '', path: '' },
  get_project_structure: { path: '.' },
  list_files: { path: '.' },
  memory_append: { content: '' },
  memory_search: { query: '' },
  move_file: { source: '', destination: '' },
  read_file: { path: '' },
  search_files: { path: '.', pattern: '' },
  write_file: { path: '', content: '' },
};

/** The arguments that a call of this tool most likely has, as text. */
export function likelyArguments(tool) {
  return JSON.stringify(LIKELY[tool] ?? {});
}

/** The modes of a matrix in their usual order; one that this page does not know comes last. */
export function modesOf(matrix) {
  const all = Object.keys(matrix?.digests ?? {});
  return [...MODES.filter((mode) => all.includes(mode)), ...all.filter((mode) => !MODES.includes(mode))];
}

/** The tools by group, reading ones first. @returns {[string, object[]][]} */
export function groupTools(tools) {
  const groups = new Map();
  for (const tool of tools) groups.set(tool.group, [...(groups.get(tool.group) ?? []), tool]);
  const place = (list, item) => (list.includes(item) ? list.indexOf(item) : list.length);
  for (const list of groups.values()) {
    list.sort((a, b) => place(EFFECTS, a.effect) - place(EFFECTS, b.effect) || a.name.localeCompare(b.name));
  }
  return [...groups].sort(([a], [b]) => place(GROUPS, a) - place(GROUPS, b));
}

/** How much a call may read, write and show, as values of a text. */
export function formatLimits(limits = {}) {
  return {
    read: formatBytes(limits.max_read_bytes),
    write: formatBytes(limits.max_write_bytes),
    lines: formatNumber(limits.max_output_lines),
    page: formatBytes(limits.max_output_bytes),
  };
}

/** What holds in a cell; for a closed mode, what would hold if it were opened. */
export function effectiveCell(cell) {
  return cell?.if_opened ?? cell;
}

/**
 * The cells that turn.
 * @returns {{tool: string, lost: Turned, gained: Turned}[]}
 * @typedef {{open: string[], closed: string[], message: string}} Turned
 */
export function differences(before, after) {
  const open = new Set(after.open_modes);
  const earlier = new Map(before.tools.map((tool) => [tool.name, tool]));
  const turned = [];
  for (const tool of after.tools) {
    const lost = { open: [], closed: [], message: '' };
    const gained = { open: [], closed: [], message: '' };
    for (const mode of modesOf(after)) {
      const was = effectiveCell(earlier.get(tool.name)?.modes[mode]);
      const is = effectiveCell(tool.modes[mode]);
      if (!was || !is || was.allowed === is.allowed) continue;
      const side = is.allowed ? gained : lost;
      side[open.has(mode) ? 'open' : 'closed'].push(mode);
      side.message ||= is.message ?? '';
    }
    if (lost.open.length + lost.closed.length + gained.open.length + gained.closed.length) {
      turned.push({ tool: tool.name, lost, gained });
    }
  }
  return turned;
}
