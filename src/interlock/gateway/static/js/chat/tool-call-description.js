/** What a tool call does, in words. */
import { html } from 'lit';
import { hasText, t } from '../i18n.js';

const LONGEST = 160;

/** Which text tells the call: the fuller one where the argument is given. */
function keyOf(tool, args) {
  const variants = {
    current_time: ['timezone'],
    list_files: ['path'],
    get_project_structure: ['path'],
    find_files: ['name_pattern'],
    search_files: ['pattern'],
  };
  const given = variants[tool]?.find((name) => args[name]);
  if (given && hasText(`call.${tool}.${given}`)) return `call.${tool}.${given}`;
  if (tool === 'write_file' && args.mode === 'append') return 'call.write_file.append';
  return `call.${tool}`;
}

/** The phrase, with what it is about set apart. @param {string} tool @param {any} args */
export function phrase(tool, args) {
  const values = args && typeof args === 'object' ? args : {};
  const key = keyOf(tool, values);
  if (!hasText(key)) return html`${t('call.other')}`;
  const parts = t(key).split(/\{(\w+)\}/);
  return parts.map((part, n) => {
    if (n % 2 === 0) return part;
    return html`<code class="about">${clipped(values[part])}</code>`;
  });
}

function clipped(value) {
  const text = (typeof value === 'string' ? value : JSON.stringify(value) ?? '?').replace(/\s+/g, ' ');
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
