/**
 * lit as every module of the page has it: what a reader could not see, or would turn other text around, is shown.
 *
 * Names, arguments, outputs and answers come from models and files. A control character in them could hide text or
 * end a paste in a terminal, and a mark of direction make `gpj.exe` of `exe.jpg`. It is done here, for all that any
 * template is given, so that no view can forget it. What stands in a field is left as it is: it goes back.
 */
import { html as template, svg as picture } from 'lit/index.js';

export { LitElement, nothing, render } from 'lit/index.js';

// Not line ends and tabs, nor the marks that letters and emoji are joined with, nor those that only hint at a direction.
// The last part is letters as tags, which a model reads and no screen shows, except in the flags of a few countries.
const UNSEEN =
  // oxlint-disable-next-line no-control-regex -- control characters are what it is about
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]|(?<!\ud83c\udff4(?:\udb40[\udc20-\udc7e]){0,6})\udb40[\udc00-\udc7f]/g;
const FIELD = /\svalue=["']?$|\.value=$/;
const PROPERTY = /\.\w+=$/;
const changesOfTemplates = new WeakMap();

/** @param {string} text */
export function plain(text) {
  return text.replace(UNSEEN, (found) => {
    const code = found.codePointAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16)}`;
  });
}

const unchanged = (value) => value;
const shownString = (value) => (typeof value === 'string' ? plain(value) : value);
const shown = (value) => (Array.isArray(value) ? value.map(shown) : shownString(value));

/** What is done to each value of a template. A list given to a property stays the same list, or its element would see a change at every render. */
function changesOf(strings) {
  if (!changesOfTemplates.has(strings)) {
    changesOfTemplates.set(strings, strings.map((before) => (FIELD.test(before) ? unchanged : PROPERTY.test(before) ? shownString : shown)));
  }
  return changesOfTemplates.get(strings);
}

const prepared = (strings, values) => values.map((value, n) => changesOf(strings)[n](value));

export const html = (strings, ...values) => template(strings, ...prepared(strings, values));
export const svg = (strings, ...values) => picture(strings, ...prepared(strings, values));
