import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changes, isDefault, parsed, shown } from '../../src/interlock/gateway/static/js/views/settings-form.js';

test('a list without ports is not a list that was never set', () => {
  assert.equal(shown('ports', []), 'none');
  assert.equal(shown('ports', null), '');
  for (const typed of ['none', 'None ', '无']) assert.deepEqual(parsed('ports', typed), { value: [] });
  assert.deepEqual(parsed('ports', ' '), { empty: true });
  assert.deepEqual(parsed('ports', '80, 0'), { wrong: 'settings.wrong.ports' });
});

test('closed ports return to the default when their field is emptied', () => {
  const fields = [{ path: 'tools.shell.ports', type: 'ports' }];
  const stored = { tools: { shell: { ports: [] } } };
  const defaults = { tools: { shell: { ports: null } } };
  const form = { 'tools.shell.ports': shown('ports', []) };
  assert.deepEqual(changes(fields, form, stored, defaults), []);
  assert.equal(isDefault(fields, form, defaults), false);
  const [change] = changes(fields, { 'tools.shell.ports': '' }, stored, defaults);
  assert.deepEqual([change.from, change.to, change.send], [[], null, '']);
});
