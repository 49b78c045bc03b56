import { kept } from './session-store.js';

/** @type {('auto'|'light'|'dark')[]} */
export const THEMES = ['auto', 'light', 'dark'];

/** @returns {'auto'|'light'|'dark'} */
export function theme() {
  const chosen = kept.get('theme');
  return THEMES.find((name) => name === chosen) ?? 'auto';
}

/** @param {'auto'|'light'|'dark'} name */
export function setTheme(name) {
  kept.set('theme', name === 'auto' ? '' : name);
  applyTheme();
}

/** The stylesheet follows the system unless something else was chosen. */
export function applyTheme() {
  const name = theme();
  if (name === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}
