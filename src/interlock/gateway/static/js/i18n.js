/** Every text of the page, in English and Chinese. The words are in texts-*.js; this file picks and fills them. */
import { SHELL_TEXTS } from './texts-shell.js';
import { CHAT_TEXTS } from './texts-chat.js';
import { SLASH_TEXTS } from './texts-slash.js';
import { VIEW_TEXTS } from './texts-views.js';
import { toChinese } from './texts-server-messages.js';

export const LANGUAGES = { en: 'English', zh: '中文' };
const KEPT_AS = 'interlock.language';

const TEXTS = {};
for (const code of Object.keys(LANGUAGES)) {
  TEXTS[code] = { ...SHELL_TEXTS[code], ...CHAT_TEXTS[code], ...SLASH_TEXTS[code], ...VIEW_TEXTS[code] };
}

const listeners = new Set();
/** @type {'en'|'zh'} */
let current = chosen() ?? ((navigator.language || 'en').toLowerCase().startsWith('zh') ? 'zh' : 'en');
tellDocument();

/** @returns {'en'|'zh'|null} */
function chosen() {
  try {
    const kept = localStorage.getItem(KEPT_AS);
    return kept === 'en' || kept === 'zh' ? kept : null;
  } catch {
    return null;
  }
}

function tellDocument() {
  if (typeof document !== 'undefined') document.documentElement.lang = current === 'zh' ? 'zh-CN' : 'en';
}

/** @returns {'en'|'zh'} */
export function language() {
  return current;
}

/** @param {'en'|'zh'} code */
export function setLanguage(code) {
  if (!(code in LANGUAGES) || code === current) return;
  current = code;
  try {
    localStorage.setItem(KEPT_AS, code);
  } catch {
    // It holds until the page is closed.
  }
  tellDocument();
  for (const fn of listeners) fn(code);
}

/** @param {(code: string) => void} fn @returns {() => void} */
export function onLanguageChange(fn) {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

/**
 * The text of a key, with `{name}` filled from the values. A text may be [one, other], chosen by `values.n`.
 * @param {string} key @param {Record<string, unknown>} [values] @returns {string}
 */
export function t(key, values = {}) {
  let text = TEXTS[current][key] ?? TEXTS.en[key] ?? key;
  if (Array.isArray(text)) text = text[values.n === 1 ? 0 : 1];
  return filled(text, values);
}

function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/**
 * A text that the server gives in every language of the page.
 * @param {{en: string, zh: string}} texts @param {Record<string, unknown>} [values] @returns {string}
 */
export function inLanguage(texts, values = {}) {
  return filled(texts[current], values);
}

/** What the server wrote in English, in the language of the page as far as it is known. @param {string} [text] */
export function translated(text) {
  return current === 'zh' && text ? toChinese(text) : text;
}

/** Whether there is a text for this key. @param {string} key */
export function hasText(key) {
  return key in TEXTS.en;
}

const locale = () => (current === 'zh' ? 'zh-CN' : navigator.language?.startsWith('en') ? navigator.language : 'en');

/** Today: the time; this year: day and time; else the date. @param {number} us microseconds since 1970 */
export function formatTime(us) {
  const date = new Date(us / 1000);
  const now = new Date();
  /** @type {Intl.DateTimeFormatOptions} */
  const time = { hour: '2-digit', minute: '2-digit' };
  if (date.toDateString() === now.toDateString()) return date.toLocaleTimeString(locale(), time);
  /** @type {Intl.DateTimeFormatOptions} */
  const day = { month: 'short', day: 'numeric' };
  if (date.getFullYear() === now.getFullYear()) return date.toLocaleString(locale(), { ...day, ...time });
  return date.toLocaleDateString(locale(), { ...day, year: 'numeric' });
}

/** The whole moment, for a tooltip. @param {number} us */
export function formatMoment(us) {
  return new Date(us / 1000).toLocaleString(locale(), { dateStyle: 'medium', timeStyle: 'medium' });
}

/** @param {number} ms */
export function formatDuration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '';
  if (ms < 1) return '<1 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** @param {number} n */
export function formatBytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = n;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit && value < 10 ? Number(value.toFixed(1)) : Math.round(value)} ${units[unit]}`;
}

/** @param {number} n */
export function formatNumber(n) {
  return Number(n).toLocaleString(locale());
}
