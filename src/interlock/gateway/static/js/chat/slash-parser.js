/** What begins with a slash: the server's table of commands, how it is read, and what could be meant. No DOM. */
import { api } from '../api.js';
import { modelNames } from '../session-store.js';
import { hasText, t } from '../i18n.js';

/** One word behind the slash. /etc/hosts is none, and so a message that begins with a path stays one. */
const WRITTEN = /^\/([\p{L}\p{N}_]*)(?:\s+([\s\S]*))?$/u;
const BEGUN = /^\/(\w*)$/;
const BEGUN_BEHIND = /^\/(\w+)[^\S\n]+(\S*)$/;

const VALUES = { mode: () => api.info?.open_modes ?? [], model: modelNames };

/** @returns {{name: string, takes: string}[]} */
export const commands = () => api.info?.commands ?? [];

/**
 * null where it is a message; else the command, or what is to be told of it.
 * @param {string} text @returns {null | {name: string, rest: string} | {problem: [string, object]}}
 */
export function parseSlash(text) {
  const found = WRITTEN.exec(text.trim());
  if (!found) return null;
  const name = found[1].toLowerCase();
  const rest = (found[2] ?? '').trim();
  const command = commands().find((each) => each.name === name);
  if (!command) return { problem: ['slash.unknown', { name }] };
  if (rest && !command.takes) return { problem: ['slash.takes_nothing', { name }] };
  return { name, rest };
}

/**
 * What a text could become: commands while their name is written, then what they take. `runs` where nothing has to
 * stand behind it; `first` is the one that Enter means, -1 while it means the text as it stands.
 * @param {string} text @returns {{first: number, items: {text: string, takes: string, about: string, runs: boolean}[]}}
 */
export function suggestions(text) {
  const begun = BEGUN.exec(text);
  if (begun) {
    const fitting = commands().filter(({ name }) => name.startsWith(begun[1].toLowerCase()));
    const items = fitting.map(({ name, takes }) => ({ text: `/${name}`, takes, about: t(`slash.${name}`), runs: !takes }));
    return { first: firstOf(items, text, 0), items };
  }
  const [, name = '', value = ''] = BEGUN_BEHIND.exec(text) ?? [];
  const fitting = (VALUES[name.toLowerCase()]?.() ?? []).filter((each) => each.startsWith(value));
  const items = fitting.map((each) => ({ text: `/${name} ${each}`, takes: '', about: aboutMode(each), runs: true }));
  return { first: firstOf(items, text, value ? 0 : -1), items };
}

/** What is written whole is meant, also where something longer begins so: /mode chat is not /mode chat_safe. */
function firstOf(items, text, otherwise) {
  const whole = items.findIndex((item) => item.text === text);
  return whole < 0 ? otherwise : whole;
}

const aboutMode = (name) => (hasText(`mode.for.${name}`) ? t(`mode.for.${name}`) : '');
