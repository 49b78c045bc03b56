/**
 * InlineParser markdown to a tree of plain objects. Pure and linear in the length of the text.
 *
 * @typedef {{t: 'text', v: string} | {t: 'code', v: string} | {t: 'br'}
 *   | {t: 'strong'|'em'|'del', kids: Node[]}
 *   | {t: 'link'|'image', href: string|null, shown: string, title?: string, kids: Node[]}} Node
 */

const MAX_DESTINATION = 2048;
const MAX_BRACKETS = 200;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const EAST_ASIAN = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303f\uff00-\uffef]/u;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const URL_START = /(?:https?:\/\/)[^\s<>"`\u3000-\u303f\uff01-\uff0f\uff1a-\uff1f]+/iy;
const ANGLE_LINK = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2048}|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})>/iy;
const ENTITY = /&(amp|lt|gt|quot|apos|nbsp|#39|#x27);/y;
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", '#39': "'", '#x27': "'", nbsp: '\u00a0' };
const SPECIAL = /[\\`*_~[\]!<&\nh]/gi;

/** A web or mail address that may be followed; null for anything else. @param {string} address */
export function safeUrl(address) {
  try {
    const url = new URL(address);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

const NAMED_HOST = /(?:[\p{L}\p{N}-]{1,63}\.){1,10}\p{L}{2,63}/gu;
const MAX_WORDS = 4096;

/**
 * Where an address leads, if the words of the link name another place; else nothing. What stands before an @ is not
 * the place, and letters of other scripts can look like it.
 * @param {string} href @param {string} words
 */
export function deceptiveTarget(href, words) {
  const { host, hostname, username } = new URL(href);
  const place = host || href;
  if (username || /(^|\.)xn--/.test(hostname)) return place;
  const own = safeUrl(words.trim());
  if (own) return new URL(own).host === host ? '' : place;
  const named = words.slice(0, MAX_WORDS).toLowerCase().match(NAMED_HOST) ?? [];
  return words.length > MAX_WORDS || named.some((name) => name !== hostname) ? place : '';
}

/** @param {string} text @returns {Node[]} */
export function parseInline(text) {
  return new InlineParser(text).parse();
}

class InlineParser {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.items = [];
    this.brackets = [];
    this.ticks = null;
  }

  parse() {
    const { text } = this;
    while (this.at < text.length) {
      SPECIAL.lastIndex = this.at;
      const found = SPECIAL.exec(text);
      const next = found ? found.index : text.length;
      if (next > this.at) this.#text(text.slice(this.at, next));
      this.at = next;
      if (found) this.#special(text[next]);
    }
    return emphasised(this.items);
  }

  #text(value) {
    const last = this.items[this.items.length - 1];
    if (last?.t === 'text' && !last.fixed) last.v += value;
    else this.items.push({ t: 'text', v: value });
  }

  #plain(length = 1) {
    this.#text(this.text.slice(this.at, this.at + length));
    this.at += length;
  }

  #special(char) {
    switch (char) {
      case '\\':
        return this.#escape();
      case '`':
        return this.#code();
      case '*':
      case '_':
      case '~':
        return this.#delimiter(char);
      case '[':
        return this.#open(false);
      case '!':
        return this.text[this.at + 1] === '[' ? this.#open(true) : this.#plain();
      case ']':
        return this.#close();
      case '<':
        return this.#angle();
      case '&':
        return this.#entity();
      case '\n':
        return this.#lineEnd();
      default:
        return this.#address();
    }
  }

  #escape() {
    const next = this.text[this.at + 1];
    if (next === '\n') {
      this.items.push({ t: 'br' });
      this.at += 2;
    } else if (next !== undefined && ESCAPABLE.test(next)) {
      this.at++;
      this.items.push({ t: 'text', v: next, fixed: true });
      this.at++;
    } else {
      this.#plain();
    }
  }

  /** A line of a chat that ends is meant to end. */
  #lineEnd() {
    const last = this.items[this.items.length - 1];
    if (last?.t === 'text') last.v = last.v.replace(/ {1,50}$/, '');
    this.items.push({ t: 'br' });
    this.at++;
    while (this.text[this.at] === ' ') this.at++;
  }

  #code() {
    const { text } = this;
    let end = this.at;
    while (text[end] === '`') end++;
    const length = end - this.at;
    const close = this.#closingTicks(length, end);
    if (close < 0) return this.#plain(length);
    let value = text.slice(end, close).replace(/\n/g, ' ');
    if (value.length > 2 && value.startsWith(' ') && value.endsWith(' ') && value.trim()) value = value.slice(1, -1);
    this.items.push({ t: 'code', v: value });
    this.at = close + length;
  }

  /** Where the next run of exactly so many ticks begins; each list of runs is walked once. */
  #closingTicks(length, from) {
    if (!this.ticks) {
      this.ticks = new Map();
      for (const run of this.text.matchAll(/`+/g)) {
        const n = run[0].length;
        if (!this.ticks.has(n)) this.ticks.set(n, { places: [], next: 0 });
        this.ticks.get(n).places.push(run.index);
      }
    }
    const runs = this.ticks.get(length);
    while (runs.next < runs.places.length && runs.places[runs.next] < from) runs.next++;
    return runs.next < runs.places.length ? runs.places[runs.next] : -1;
  }

  #delimiter(char) {
    const { text } = this;
    let end = this.at;
    while (text[end] === char) end++;
    const count = end - this.at;
    if (char === '~' && count !== 2) return this.#plain(count);
    const before = before1(text, this.at);
    const after = end < text.length ? String.fromCodePoint(text.codePointAt(end)) : ' ';
    const spaceAfter = /\s/.test(after);
    const spaceBefore = /\s/.test(before);
    const markAfter = PUNCTUATION.test(after);
    const markBefore = PUNCTUATION.test(before);
    const left = !spaceAfter && (!markAfter || spaceBefore || markBefore || EAST_ASIAN.test(before));
    const right = !spaceBefore && (!markBefore || spaceAfter || markAfter || EAST_ASIAN.test(after));
    const word = char === '_';
    this.items.push({
      t: 'delimiter',
      char,
      count,
      opens: word ? left && (!right || markBefore) : left,
      closes: word ? right && (!left || markAfter) : right,
    });
    this.at = end;
  }

  #open(isImage) {
    const length = isImage ? 2 : 1;
    if (this.brackets.length < MAX_BRACKETS) this.brackets.push({ place: this.items.length, isImage });
    this.items.push({ t: 'text', v: isImage ? '![' : '[', fixed: true });
    this.at += length;
  }

  #close() {
    const opener = this.brackets.pop();
    const target = opener && readDestination(this.text, this.at + 1);
    if (!target) return this.#plain();
    const kids = emphasised(this.items.splice(opener.place).slice(1));
    this.items.push({
      t: opener.isImage ? 'image' : 'link',
      href: safeUrl(target.address),
      shown: target.address,
      title: target.title,
      kids,
    });
    // A link holds no other link.
    if (!opener.isImage) this.brackets = [];
    this.at = target.end;
  }

  #angle() {
    ANGLE_LINK.lastIndex = this.at;
    const found = ANGLE_LINK.exec(this.text);
    if (!found) return this.#plain();
    const address = found[1].includes(':') ? found[1] : `mailto:${found[1]}`;
    this.items.push({ t: 'link', href: safeUrl(address), shown: address, kids: [{ t: 'text', v: found[1] }] });
    this.at += found[0].length;
  }

  #entity() {
    ENTITY.lastIndex = this.at;
    const found = ENTITY.exec(this.text);
    if (!found) return this.#plain();
    this.items.push({ t: 'text', v: ENTITIES[found[1]], fixed: true });
    this.at += found[0].length;
  }

  /** An address that stands by itself. */
  #address() {
    const before = before1(this.text, this.at);
    URL_START.lastIndex = this.at;
    const found = /[\w]/.test(before) ? null : URL_START.exec(this.text);
    if (!found) return this.#plain();
    let value = found[0].slice(0, MAX_DESTINATION).replace(/[?!.,:;*_~'")\]}]{1,64}$/, (tail) => keptTail(found[0], tail));
    const href = safeUrl(value);
    if (!href) value = found[0];
    this.items.push(
      href ? { t: 'link', href, shown: value, kids: [{ t: 'text', v: value }] } : { t: 'text', v: value },
    );
    this.at += value.length;
  }
}

/** A closing parenthesis belongs to the address when it has its opening one in it. */
function keptTail(address, tail) {
  if (!tail.startsWith(')')) return '';
  const body = address.slice(0, address.length - tail.length);
  return body.split('(').length > body.split(')').length ? ')' : '';
}

function before1(text, at) {
  if (at === 0) return ' ';
  const low = text.charCodeAt(at - 1);
  return low >= 0xdc00 && low <= 0xdfff && at > 1 ? text.slice(at - 2, at) : text[at - 1];
}

/** `(address "title")` from `at` on, or null. */
function readDestination(text, at) {
  if (text[at] !== '(') return null;
  let place = at + 1;
  while (text[place] === ' ') place++;
  const start = place;
  const limit = Math.min(text.length, place + MAX_DESTINATION);
  let address;
  if (text[place] === '<') {
    while (place < limit && text[place] !== '>' && text[place] !== '\n') place++;
    if (text[place] !== '>') return null;
    address = text.slice(start + 1, place);
    place++;
  } else {
    let depth = 0;
    while (place < limit && !/\s/.test(text[place])) {
      if (text[place] === '\\') place++;
      else if (text[place] === '(' && ++depth > 32) return null;
      else if (text[place] === ')' && --depth < 0) break;
      place++;
    }
    address = text.slice(start, place).replace(/\\([!-/:-@[-`{-~])/g, '$1');
  }
  while (text[place] === ' ') place++;
  const quote = text[place];
  let title = '';
  if (quote === '"' || quote === "'") {
    const end = text.indexOf(quote, place + 1);
    if (end < 0 || end - place > MAX_DESTINATION) return null;
    title = text.slice(place + 1, end);
    place = end + 1;
    while (text[place] === ' ') place++;
  }
  return text[place] === ')' ? { address, title, end: place + 1 } : null;
}

const LOOK_BACK = 8;

/** The nearest opener that fits. Marks that can both open and close do not pair where their sum divides by three. */
function openerFor(closer, stack) {
  for (let at = stack.length - 1; at >= Math.max(0, stack.length - LOOK_BACK); at--) {
    const opener = stack[at];
    const both = (opener.closes || closer.opens) && (opener.count + closer.count) % 3 === 0;
    if (!both || (opener.count % 3 === 0 && closer.count % 3 === 0)) return opener;
  }
  return null;
}

const NAMES = { 1: 'em', 2: 'strong' };

/** Pairs the delimiters of one level. Every opener is looked at once for each kind of closer. */
function emphasised(items) {
  const out = [];
  const openers = { '*': [], _: [], '~': [] };
  for (const item of items) {
    if (item.t !== 'delimiter') {
      out.push(item);
      continue;
    }
    const stack = openers[item.char];
    let left = item.count;
    while (item.closes && left > 0) {
      const opener = openerFor(item, stack);
      if (!opener) break;
      // What lies inside a pair can no longer be opened from outside of it.
      const used = item.char === '~' ? 2 : Math.min(2, left, opener.left);
      const kids = out.splice(opener.place + 1);
      for (const other of Object.values(openers)) {
        while (other.length && other[other.length - 1].place > opener.place) other.pop();
      }
      out.push({ t: item.char === '~' ? 'del' : NAMES[used], kids: settled(kids) });
      left -= used;
      opener.left -= used;
      const mark = out[opener.place];
      mark.v = mark.v.slice(0, opener.left);
      if (opener.left === 0) stack.pop();
    }
    if (left > 0) {
      if (item.opens) stack.push({ place: out.length, left, count: item.count, closes: item.closes });
      out.push({ t: 'text', v: item.char.repeat(left), fixed: true });
    }
  }
  return settled(out);
}

/** Neighbouring texts become one, empty ones go. */
function settled(items) {
  const out = [];
  for (const item of items) {
    const last = out[out.length - 1];
    if (item.t !== 'text') out.push(item);
    else if (last?.t === 'text') last.v += item.v;
    else if (item.v) out.push({ t: 'text', v: item.v });
  }
  return out;
}
