/** What is read of a hostile text, and how long it takes. How it is drawn is tested in a browser. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { splitMarkdown, parseMarkdown } from '../../src/interlock/gateway/static/js/markdown/block-parser.js';

const MARKS = ['[', '](', '*', '**a', '_', '`', '> ', '- ', '<', '![', '|', '~~', '\\', '&', '# ', '1. ', '(('];
const HOSTILE = [...MARKS, '```\n', 'a_b*c`[d](', '\n> - ', '|a\n|-\n', '[a](b ', `${'`'.repeat(7)}a`];
const SIZE = 100_000;
const MILLISECONDS_AT_MOST = 5_000;

test('hostile markdown is read in time', () => {
  // Anything worse than linear would take minutes, or make a result of gigabytes.
  const wrong = [];
  for (const piece of HOSTILE) {
    const text = piece.repeat(Math.ceil(SIZE / piece.length));
    const began = performance.now();
    const parsed = splitMarkdown(text).map(parseMarkdown);
    const taken = performance.now() - began;
    const letters = JSON.stringify(parsed).length;
    if (taken >= MILLISECONDS_AT_MOST || letters >= 200 * SIZE) wrong.push({ piece, taken, letters });
  }
  assert.deepEqual(wrong, []);
});
