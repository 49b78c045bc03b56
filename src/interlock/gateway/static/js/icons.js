import { html, svg } from 'lit';

/** Line drawings on a 24 by 24 grid. They say nothing to a screen reader: the words beside them do. */
const SHAPES = {
  chat: svg`<path d="M4 5h16v11H9l-5 4z"/>`,
  settings: svg`<path d="M4 7h9M17 7h3M4 17h3M11 17h9"/><circle cx="15" cy="7" r="2"/><circle cx="9" cy="17" r="2"/>`,
  authority: svg`<path d="M8 3v7M8 15v6M16 3v4M16 12v9"/><circle cx="12" cy="12" r="1.6"/>`,
  activity: svg`<path d="M5 4v16M5 7h6M5 12h11M5 17h8"/><circle cx="5" cy="7" r="1"/>`,
  workflows: svg`<rect x="3.5" y="4" width="7" height="5" rx="1"/><rect x="13.5" y="15" width="7" height="5" rx="1"/><path d="M7 9v8.5h6.5M10.5 6.5H17V15"/>`,
  servers: svg`<rect x="4" y="4" width="16" height="6.5" rx="1.5"/><rect x="4" y="13.5" width="16" height="6.5" rx="1.5"/><path d="M8 7.2v.01M8 16.7v.01"/>`,
  pause: svg`<path d="M9 6v12M15 6v12"/>`,
  play: svg`<path d="M8 5.5v13l10-6.5z"/>`,
  plus: svg`<path d="M12 5v14M5 12h14"/>`,
  search: svg`<circle cx="11" cy="11" r="6"/><path d="m20 20-4.5-4.5"/>`,
  menu: svg`<path d="M4 7h16M4 12h16M4 17h16"/>`,
  close: svg`<path d="m6 6 12 12M18 6 6 18"/>`,
  more: svg`<g fill="currentColor" stroke="none"><circle cx="5.5" cy="12" r="1.7"/><circle cx="12" cy="12" r="1.7"/><circle cx="18.5" cy="12" r="1.7"/></g>`,
  check: svg`<path d="m5 12.5 4.5 4.5L19 7.5"/>`,
  denied: svg`<circle cx="12" cy="12" r="8.5"/><path d="M7 12h10"/>`,
  warn: svg`<path d="M12 4 2.8 20h18.4z"/><path d="M12 10v4.5M12 17.3v.01"/>`,
  info: svg`<circle cx="12" cy="12" r="8.5"/><path d="M12 11v5.5M12 7.7v.01"/>`,
  error: svg`<circle cx="12" cy="12" r="8.5"/><path d="M12 7v6M12 16.3v.01"/>`,
  stop: svg`<rect x="6.5" y="6.5" width="11" height="11" rx="1.5"/>`,
  send: svg`<path d="M12 19V5M6 11l6-6 6 6"/>`,
  down: svg`<path d="M12 5v14M6 13l6 6 6-6"/>`,
  chevron: svg`<path d="m8 10 4 4 4-4"/>`,
  copy: svg`<rect x="8" y="8" width="12" height="12" rx="2"/><path d="M16 8V4H4v12h4"/>`,
  redo: svg`<path d="m16 5 4 4-4 4"/><path d="M20 9H10a5 5 0 0 0 0 10h6"/>`,
  undo: svg`<path d="M8 5 4 9l4 4"/><path d="M4 9h10a5 5 0 0 1 0 10H8"/>`,
  retry: svg`<path d="M19 12a7 7 0 1 1-2-5l2 2"/><path d="M19 4v5h-5"/>`,
  rename: svg`<path d="M4 20h4L19 9l-4-4L4 16z"/>`,
  archive: svg`<path d="M4 5h16v4H4zM6 9v10h12V9M10 13h4"/>`,
  unarchive: svg`<path d="M4 5h16v4H4zM6 9v10h12V9M12 17v-5M9.5 14.5 12 12l2.5 2.5"/>`,
  trash: svg`<path d="M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13"/>`,
  download: svg`<path d="M12 4v11M7 11l5 5 5-5M5 20h14"/>`,
  clock: svg`<circle cx="12" cy="12" r="8.5"/><path d="M12 7.5V12l3 2"/>`,
  question: svg`<circle cx="12" cy="12" r="8.5"/><path d="M9.5 9.5a2.5 2.5 0 1 1 3.6 2.3c-.8.4-1.1.9-1.1 1.7M12 16.6v.01"/>`,
  file: svg`<path d="M6 3h8l4 4v14H6zM14 3v4h4"/>`,
  folder: svg`<path d="M3 6h7l2 2h9v11H3z"/>`,
  terminal: svg`<path d="m5 7 5 5-5 5M12 18h7"/>`,
  note: svg`<path d="M5 4h14v16H5zM9 9h6M9 13h6"/>`,
  image: svg`<rect x="4" y="5" width="16" height="14" rx="1.5"/><path d="m5 17 5-5 4 4 2-2 3 3"/><circle cx="15" cy="9" r="1"/>`,
  tool: svg`<path d="M14 6a4 4 0 0 1 5 5l-9 9-4-4 8-8z"/>`,
  sun: svg`<circle cx="12" cy="12" r="4"/><path d="M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M18.4 5.6 17 7M7 17l-1.4 1.4"/>`,
  moon: svg`<path d="M19 14A8 8 0 0 1 10 5a7.5 7.5 0 1 0 9 9z"/>`,
  auto: svg`<circle cx="12" cy="12" r="8"/><path d="M12 4v16a8 8 0 0 0 0-16" fill="currentColor"/>`,
  person: svg`<circle cx="12" cy="8" r="3.5"/><path d="M5 20c0-4 3-6 7-6s7 2 7 6"/>`,
  logout: svg`<path d="M10 5H5v14h5M14 8l4 4-4 4M18 12H9"/>`,
};

/** @typedef {keyof typeof SHAPES} IconName */

/** @param {IconName} name */
export function icon(name) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">${SHAPES[name] ?? SHAPES.tool}</svg>`;
}

/** Two gates, and what passes both. */
export function logo() {
  return html`<svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
    <rect class="logo-ground" width="32" height="32" rx="7" />
    <path class="logo-gate" d="M11 5v8M11 19v8M21 5v8M21 19v8" />
    <path class="logo-way" d="M4.5 16h17" />
    <circle class="logo-way-end" cx="25" cy="16" r="2.4" />
  </svg>`;
}

const GATES = {
  open: svg`<path d="M9 4v5M9 15v5M15 4v5M15 15v5"/><path class="way" d="M3 12h18"/>`,
  shut: svg`<path d="M9 4v5M9 15v5M15 4v16"/><path class="way" d="M3 12h8"/>`,
  between: svg`<path d="M9 4v5M9 15v5M15 4v5M15 15v5"/><path class="way" d="M3 12h9"/>`,
  broken: svg`<path d="M9 4v5M9 15v5M15 4v5M15 15v5"/><path class="way" d="M3 12h12M18 10l3 4M21 10l-3 4"/>`,
};
const GATE_OF = { ok: 'open', running: 'between', asked: 'between', waiting: 'between', denied: 'shut' };

/** How far a call came: through both gates, or to the second. @param {string} status */
export function gate(status) {
  return html`<svg class="icon gate ${status}" viewBox="0 0 24 24" aria-hidden="true">${GATES[GATE_OF[status] ?? 'broken']}</svg>`;
}
