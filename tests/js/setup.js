/**
 * Lets Node run the page's modules: `node --import tests/js/setup.js --test tests/js/`.
 *
 * What the page finds by its import map stands in for lit here: templates are kept as they were written, and nothing
 * is drawn. How something is drawn is tested in a browser.
 */
import { register } from 'node:module';
import { pathToFileURL } from 'node:url';
import { resolve } from 'node:path';

const root = pathToFileURL(`${resolve(import.meta.dirname, '../..')}/`).href;
const hooks = `
const LIT = ${JSON.stringify(`${root}tests/js/lit.js`)};
export async function resolve(name, context, next) {
  if (name === 'lit' || name.startsWith('lit/')) return { url: LIT, format: 'module', shortCircuit: true };
  const found = await next(name, context);
  return found.url.startsWith(${JSON.stringify(root)}) ? { ...found, format: 'module' } : found;
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);

// What modules of the page ask for while they are read.
const nothing = { getItem: () => null, setItem() {}, removeItem() {} };
Object.assign(globalThis, {
  customElements: { define() {} },
  HTMLElement: class {},
  localStorage: nothing,
  document: { documentElement: { lang: 'en', dataset: {} }, addEventListener() {} },
  addEventListener() {},
  matchMedia: () => ({ matches: false, addEventListener() {} }),
  location: { hash: '', host: 'localhost', protocol: 'http:' },
});
Object.defineProperty(globalThis, 'navigator', { value: { language: 'en' }, configurable: true });

// Browsers have it, and Node from 21 on.
Map.groupBy ??= (items, keyOf) => {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
};
