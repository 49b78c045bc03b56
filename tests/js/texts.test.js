/** The page's words in both languages, and what its sources may not have. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CHAT_TEXTS } from '../../src/interlock/gateway/static/js/texts-chat.js';
import { SHELL_TEXTS } from '../../src/interlock/gateway/static/js/texts-shell.js';
import { SLASH_TEXTS } from '../../src/interlock/gateway/static/js/texts-slash.js';
import { VIEW_TEXTS } from '../../src/interlock/gateway/static/js/texts-views.js';

const PARTS = [SHELL_TEXTS, CHAT_TEXTS, SLASH_TEXTS, VIEW_TEXTS];
const en = Object.assign({}, ...PARTS.map((part) => part.en));
const zh = Object.assign({}, ...PARTS.map((part) => part.zh));
const STATIC = join(import.meta.dirname, '../../src/interlock/gateway/static');
const SOURCES = readdirSync(STATIC, { recursive: true })
  .filter((name) => name.endsWith('.js') && !name.startsWith('vendor'))
  .map((name) => [name, readFileSync(join(STATIC, name), 'utf8')]);
const ALL = SOURCES.map(([, text]) => text).join('\n');
const all = (pattern) => [...ALL.matchAll(pattern)].map(([, found]) => found);

test('both languages have the same texts, with the same fields', () => {
  const fields = (text) => [...new Set([...[text].flat().join(' ').matchAll(/\{(\w+)\}/g)].map(([, name]) => name))]
    .filter((name) => name !== 'n')
    .sort();
  assert.deepEqual(Object.keys(en).sort(), Object.keys(zh).sort());
  const wrong = Object.keys(en).filter((key) => !en[key] || !zh[key] || String(fields(en[key])) !== String(fields(zh[key])));
  assert.deepEqual(wrong, []);
  const count = PARTS.reduce((sum, part) => sum + Object.keys(part.en).length, 0);
  assert.equal(count, Object.keys(en).length, 'a key stands in two files');
});

test('Chinese has one word for the operator', () => {
  const wrong = Object.keys(en).filter((key) => /\boperator/i.test(String(en[key])) && !String(zh[key]).includes('管理员'));
  assert.deepEqual(wrong, []);
  assert.doesNotMatch(ALL, /操作者|操作员|运营者|运维/);
});

test('every text that is asked for is there', () => {
  const asked = new Set(all(/\b(?:t|hasText)\(\s*'([\w.]+)'/g));
  assert.ok(asked.size > 200);
  assert.deepEqual([...asked].filter((key) => !(key in en)), []);
  const beginnings = new Set(all(/\bt\(`([\w.]+\.)\$\{/g));
  assert.ok(beginnings.size);
  assert.deepEqual([...beginnings].filter((each) => !Object.keys(en).some((key) => key.startsWith(each))), []);
});

test('nothing comes from elsewhere and nothing is set as HTML', () => {
  const html = /unsafeHTML|innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/;
  const elsewhere = /(?:fetch|import|WebSocket|src=|href=)\W{0,3}https?:\/\//;
  assert.deepEqual(SOURCES.filter(([, text]) => html.test(text) || elsewhere.test(text)).map(([name]) => name), []);
});
