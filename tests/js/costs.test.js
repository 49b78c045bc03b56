import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sumOfCosts } from '../../src/interlock/gateway/static/js/views/timeline-rows.js';
import { cost } from '../../src/interlock/gateway/static/js/views/timeline.js';

test('a cost with unknown parts is a lower bound', () => {
  const told = (...parts) => cost(sumOfCosts(parts.map(([known, isWhole]) => ({ known, isWhole }))));
  assert.equal(told([0.5, true], [1, true]), '1.5');
  assert.equal(told([0.5, true], [0, false]), 'at least 0.5');
  assert.equal(told([0, false]), 'unknown');
  assert.equal(told([0, true]), '0');
  assert.equal(told(), '0');
});
