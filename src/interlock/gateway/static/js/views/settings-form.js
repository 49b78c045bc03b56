/** The values of Settings → Tools: what their controls show, what was entered, and the patch that stores it. */

/**
 * A field as the server describes it (settings.get, `form`). `within` is the switch without which it is not shown.
 * @typedef {{path: string, type: 'switch'|'bytes'|'seconds'|'ports'|'tools'|'servers'|'choice', label: Text, hint: Text,
 *   within: string|null, choices: {value: string, label: Text}[]}} Field
 * @typedef {{en: string, zh: string}} Text
 */

/** All fields of a form. @returns {Field[]} */
export function fieldsOf(form) {
  return form.flatMap((group) => group.fields);
}

/** The id of a field's control. */
export function controlId({ path }) {
  return `setting-${path.replace(/^tools\./, '').replaceAll(/[._]/g, '-')}`;
}

export function valueAt(document, path) {
  return path.split('.').reduce((value, step) => value?.[step], document) ?? null;
}

/** The operator's limit of a field; null where there is none. */
export function ceilingAt(ceiling, path) {
  return valueAt(ceiling?.tools ? ceiling : { tools: ceiling }, path);
}

const NO_PORTS = 'none';

/** How a stored value stands in its field. */
export function shown(type, value) {
  if (type === 'switch') return Boolean(value);
  if (type === 'tools') return [...(value ?? [])].sort();
  // A list that was never set is not an empty one.
  if (type === 'servers') return value ? [...value].sort() : null;
  // A list without ports closes all of them; one that was never set has the operator's.
  if (type === 'ports') return value && !value.length ? NO_PORTS : (value ?? []).join(', ');
  return value === null || value === undefined ? '' : String(value);
}

export function formValues(fields, document) {
  return Object.fromEntries(fields.map(({ path, type }) => [path, shown(type, valueAt(document, path))]));
}

const UNITS = { '': 1, b: 1, k: 1024, kb: 1024, kib: 1024, m: 1024 ** 2, mb: 1024 ** 2, mib: 1024 ** 2, g: 1024 ** 3, gb: 1024 ** 3, gib: 1024 ** 3 };

/**
 * What was typed, as the value to store. Empty means: back to the default.
 * @returns {{value?: unknown, empty?: boolean, wrong?: string}} `wrong` is the key of a text
 */
export function parsed(type, raw) {
  if (type === 'switch' || type === 'tools' || type === 'choice') return { value: raw };
  if (type === 'servers') return raw ? { value: raw } : { empty: true };
  const text = raw.trim();
  if (!text) return { empty: true };
  if (type === 'bytes') {
    const match = /^(\d[\d_, ]*(?:\.\d+)?)\s*([a-z]*)$/i.exec(text);
    const unit = match && UNITS[match[2].toLowerCase()];
    if (!unit) return { wrong: 'settings.wrong.bytes' };
    const value = Number(match[1].replaceAll(/[_, ]/g, '')) * unit;
    return Number.isSafeInteger(value) && value > 0 ? { value } : { wrong: 'settings.wrong.bytes' };
  }
  if (type === 'seconds') {
    const value = Number(text.replace(/\s*s$/i, ''));
    return Number.isFinite(value) && value > 0 ? { value } : { wrong: 'settings.wrong.seconds' };
  }
  if (text.toLowerCase() === NO_PORTS || text === '无') return { value: [] };
  const ports = text.split(/[\s,;，、]+/).filter(Boolean).map(Number);
  if (!ports.every((port) => Number.isInteger(port) && port > 0 && port < 65_536)) return { wrong: 'settings.wrong.ports' };
  return { value: [...new Set(ports)].sort((a, b) => a - b) };
}

const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/**
 * What differs from the stored settings.
 * @returns {{field: Field, from: unknown, to: unknown, send: unknown}[]}
 */
export function changes(fields, form, stored, defaults) {
  const list = [];
  for (const item of fields) {
    const { value, empty, wrong } = parsed(item.type, form[item.path]);
    if (wrong) continue;
    const from = valueAt(stored, item.path);
    const to = empty ? valueAt(defaults, item.path) : value;
    if (!same(shown(item.type, from), shown(item.type, to))) {
      list.push({ field: item, from, to, send: empty || to === null ? '' : to });
    }
  }
  return list;
}

export function isDefault(fields, form, defaults) {
  return fields.every(({ path, type }) => {
    const { value, empty, wrong } = parsed(type, form[path]);
    return empty || (!wrong && same(shown(type, value), shown(type, valueAt(defaults, path))));
  });
}

export function mistakes(fields, form) {
  const found = {};
  for (const { path, type } of fields) {
    const { wrong } = parsed(type, form[path]);
    if (wrong) found[path] = wrong;
  }
  return found;
}

export function patchOf(list) {
  const patch = {};
  for (const { field: { path }, send } of list) {
    const steps = path.split('.');
    const last = steps.pop();
    let inner = patch;
    for (const step of steps) inner = inner[step] ??= {};
    inner[last] = send;
  }
  return patch;
}

/** The server's words, each at its field: "tools.fs.max_read_bytes: …; …". The rest is under ''. */
export function complaints(fields, message) {
  const found = {};
  for (const part of String(message).split(/;\s+(?=tools\.)/)) {
    const match = /^(tools\.[\w.]+):\s*([\s\S]*)$/.exec(part);
    const known = match && fields.find(({ path }) => match[1] === path || match[1].startsWith(`${path}.`));
    const key = known?.path ?? '';
    found[key] = [found[key], known ? match[2] : part].filter(Boolean).join(' ');
  }
  return found;
}
