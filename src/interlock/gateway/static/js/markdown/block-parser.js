/**
 * Markdown to a tree of blocks. Pure, and linear: each level of nesting reads its lines once, and there are few levels.
 *
 * @typedef {import('./inline-parser.js').Node} Node
 * @typedef {{t: 'p', kids: Node[]} | {t: 'h', level: number, kids: Node[]} | {t: 'hr'}
 *   | {t: 'code', lang: string, v: string, open: boolean}
 *   | {t: 'quote', kids: Block[]}
 *   | {t: 'list', ordered: boolean, start: number, items: {checked: boolean|null, kids: Block[]}[], loose: boolean}
 *   | {t: 'table', align: string[], head: Node[][], rows: Node[][][]}} Block
 */
import { parseInline } from './inline-parser.js';

const MAX_DEPTH = 16;
const FENCE = /^( {0,3})(`{3,}|~{3,})([^\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const TASK = /^\[([ xX])\][ \t]+/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;

/** @param {string} text @returns {Block[]} */
export function parseMarkdown(text) {
  return blocks(text.replace(/\r\n?/g, '\n').split('\n').map(expandTabs), 0);
}

/**
 * The text cut into pieces that can be parsed by themselves, so that those which no longer change are parsed once.
 * @param {string} text @returns {string[]}
 */
export function splitMarkdown(text) {
  const pieces = [];
  let from = 0;
  let at = 0;
  let fence = '';
  let blank = false;
  while (at < text.length) {
    let end = text.indexOf('\n', at);
    if (end < 0) end = text.length;
    const line = text.slice(at, end);
    const mark = /^\s*(`{3,}|~{3,})/.exec(line)?.[1] ?? '';
    if (fence) {
      if (mark.startsWith(fence) && line.trim() === mark) fence = '';
    } else {
      if (blank && line && !/^[\s\d*+-]/.test(line)) {
        pieces.push(text.slice(from, at));
        from = at;
      }
      if (mark) fence = mark;
    }
    blank = !fence && !line.trim();
    at = end + 1;
  }
  if (from < text.length) pieces.push(text.slice(from));
  return pieces;
}

function expandTabs(line) {
  return line.includes('\t') ? line.replace(/^[ \t]+/, (lead) => lead.replace(/\t/g, '    ')) : line;
}

const indentOf = (line) => line.length - line.trimStart().length;

function blocks(lines, depth) {
  const out = [];
  let paragraph = [];
  const flush = () => {
    if (paragraph.length) out.push({ t: 'p', kids: parseInline(paragraph.join('\n').trim()) });
    paragraph = [];
  };
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) {
      flush();
      at++;
      continue;
    }
    if (paragraph.length) {
      const under = UNDERLINE.exec(line);
      if (under) {
        out.push({ t: 'h', level: under[1][0] === '=' ? 1 : 2, kids: parseInline(paragraph.join('\n').trim()) });
        paragraph = [];
        at++;
        continue;
      }
    }
    const found = block(lines, at, depth, paragraph.length > 0);
    if (found) {
      flush();
      out.push(found.block);
      at = found.end;
    } else {
      paragraph.push(line.trimStart());
      at++;
    }
  }
  flush();
  return out;
}

/** The block that begins at this line, or null where it is a paragraph's. */
function block(lines, at, depth, inParagraph) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence && !(fence[2][0] === '`' && fence[3].includes('`'))) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    const words = (heading[2] ?? '').replace(/(?:^|[ \t])#+[ \t]*$/, '');
    return { block: { t: 'h', level: heading[1].length, kids: parseInline(words.trim()) }, end: at + 1 };
  }
  if (RULE.test(line)) return { block: { t: 'hr' }, end: at + 1 };
  if (depth < MAX_DEPTH && QUOTE.test(line)) return quoted(lines, at, depth);
  if (depth < MAX_DEPTH && startsList(line, inParagraph)) return listed(lines, at, depth);
  if (line.includes('|') && at + 1 < lines.length && TABLE_RULE.test(lines[at + 1])) {
    const table = tabled(lines, at);
    if (table) return table;
  }
  if (!inParagraph && indentOf(line) >= 4) return indented(lines, at);
  return null;
}

/** @param {string[]} lines @param {number} at @param {string[]} fence */
function fenced(lines, at, [, indent, mark, info]) {
  const close = new RegExp(`^ {0,3}${mark[0] === '`' ? '`' : '~'}{${mark.length},}[ \\t]*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end])) end++;
  const strip = new RegExp(`^ {0,${indent.length}}`);
  const code = lines.slice(at + 1, end).map((line) => (indent ? line.replace(strip, '') : line));
  const open = end >= lines.length;
  // All of it, not only the language: a person who approves a text must see every word.
  return { block: { t: 'code', lang: info.trim(), v: code.join('\n'), open }, end: end + 1 };
}

function indented(lines, at) {
  let end = at;
  let last = at;
  while (end < lines.length && (!lines[end].trim() || indentOf(lines[end]) >= 4)) {
    if (lines[end].trim()) last = end;
    end++;
  }
  const code = lines.slice(at, last + 1).map((line) => line.slice(4));
  return { block: { t: 'code', lang: '', v: code.join('\n'), open: false }, end: last + 1 };
}

function quoted(lines, at, depth) {
  const inner = [];
  let end = at;
  while (end < lines.length && lines[end].trim()) {
    const isQuote = QUOTE.test(lines[end]);
    if (!isQuote && (FENCE.test(lines[end]) || RULE.test(lines[end]) || ITEM.test(lines[end]) || HEADING.test(lines[end]))) break;
    inner.push(isQuote ? lines[end].replace(QUOTE, '') : lines[end]);
    end++;
  }
  return { block: { t: 'quote', kids: blocks(inner, depth + 1) }, end };
}

/** Within a paragraph only a list that has words, and begins with 1, is one. */
function startsList(line, inParagraph) {
  const mark = ITEM.exec(line);
  if (!mark) return false;
  if (!inParagraph) return true;
  return mark[0].length < line.length && (!/\d/.test(mark[2]) || /^1[.)]$/.test(mark[2]));
}

const kindOf = (mark) => (/\d/.test(mark) ? mark[mark.length - 1] : mark);

function listed(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const kind = kindOf(first[2]);
  const items = [];
  let loose = false;
  let end = at;
  while (end < lines.length) {
    const mark = ITEM.exec(lines[end]);
    if (!mark || kindOf(mark[2]) !== kind || RULE.test(lines[end])) break;
    const item = itemLines(lines, end, mark);
    const task = TASK.exec(item.lines[0]);
    if (task) item.lines[0] = item.lines[0].slice(task[0].length);
    items.push({ checked: task ? task[1] !== ' ' : null, kids: blocks(item.lines, depth + 1) });
    loose ||= item.innerBlank || (item.blankAfter && ITEM.test(lines[item.end] ?? ''));
    end = item.end;
  }
  const ordered = /\d/.test(first[2]);
  return { block: { t: 'list', ordered, start: ordered ? parseInt(first[2], 10) : 1, items, loose }, end };
}

/** What belongs to one item: its own line, what is indented below it, and a paragraph's lazy lines. */
function itemLines(lines, at, mark) {
  const spaces = mark[3].length;
  const width = mark[1].length + mark[2].length + (spaces === 0 || spaces > 4 ? 1 : spaces);
  const taken = [lines[at].slice(Math.min(width, lines[at].length))];
  let end = at + 1;
  let blanks = 0;
  let innerBlank = false;
  while (end < lines.length) {
    const line = lines[end];
    if (!line.trim()) {
      blanks++;
      end++;
      continue;
    }
    const inside = indentOf(line) >= width;
    if (!inside && (blanks > 0 || beginsBlock(line))) break;
    for (; blanks > 0; blanks--) {
      taken.push('');
      innerBlank ||= inside && !ITEM.test(line.slice(width));
    }
    taken.push(inside ? line.slice(width) : line.trimStart());
    end++;
  }
  return { lines: taken, end, innerBlank, blankAfter: blanks > 0 };
}

const beginsBlock = (line) =>
  ITEM.test(line) || FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || RULE.test(line);

function tabled(lines, at) {
  const head = cells(lines[at]);
  const rule = cells(lines[at + 1]);
  if (rule.length !== head.length) return null;
  const align = rule.map((cell) => {
    const [left, right] = [cell.startsWith(':'), cell.endsWith(':')];
    return left && right ? 'center' : right ? 'right' : left ? 'left' : '';
  });
  const rows = [];
  let end = at + 2;
  while (end < lines.length && lines[end].trim() && lines[end].includes('|')) {
    const row = cells(lines[end]);
    // What has no column of its own stands in the last one, and is not left out.
    const last = head.length - 1;
    if (row.length > head.length) row.splice(last, row.length - last, row.slice(last).join(' | '));
    while (row.length < head.length) row.push('');
    rows.push(row.map(parseInline));
    end++;
  }
  return { block: { t: 'table', align, head: head.map(parseInline), rows }, end };
}

function cells(line) {
  let row = line.trim();
  if (row.startsWith('|')) row = row.slice(1);
  if (row.endsWith('|') && !row.endsWith('\\|')) row = row.slice(0, -1);
  return row.split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|'));
}
