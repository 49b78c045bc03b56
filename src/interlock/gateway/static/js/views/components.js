/** Small pieces that the views share. */
import { html, nothing } from 'lit';
import { copyText } from '../copy-button.js';
import { icon as drawing } from '../icons.js';
import { formatMoment, formatTime, hasText, language, t } from '../i18n.js';

const SHAPES = {
  cross: 'm6.5 6.5 11 11M17.5 6.5l-11 11',
  lock: 'M6.5 11h11v8.5h-11zM9 11V8a3 3 0 0 1 6 0v3',
  arrow: 'M5 12h13M13 7l5 5-5 5',
  right: 'm10 8 4 4-4 4',
  shield: 'M12 3 19.5 6v5.5c0 4.5-3 7.7-7.5 9.5-4.5-1.8-7.5-5-7.5-9.5V6zM8.5 12l2.5 2.5 4.5-5',
};

/** The page's drawings, and a few of the views' own. @param {string} name */
export function icon(name) {
  if (!(name in SHAPES)) return drawing(/** @type {import('../icons.js').IconName} */ (name));
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${SHAPES[name]} /></svg>`;
}

export function loading(text = t('common.loading')) {
  return html`<p class="v-loading" role="status"><span class="spinner" aria-hidden="true"></span>${text}</p>`;
}

/** What went wrong, in words that help, and a way to try again. @param {Error & {code?: string}} error @param {() => void} [retry] */
export function problem(error, retry) {
  const key = `v.error.${error?.code}`;
  const text = hasText(key) ? t(key) : t('v.error', { message: error?.message || String(error) });
  return html`<div class="notice error" role="alert">
    ${icon('warn')}
    <p class="grow">${text}</p>
    ${retry ? html`<button type="button" class="btn tiny" @click=${retry}>${t('common.retry')}</button>` : nothing}
  </div>`;
}

/** @param {string} title @param {string} text @param {unknown} [action] */
export function empty(title, text, action = nothing) {
  return html`<div class="empty stack"><h3>${title}</h3><p>${text}</p>${action}</div>`;
}

/** "a, b and c" in the language of the page. @param {string[]} words @param {Intl.ListFormatType} [type] */
export function joined(words, type = 'conjunction') {
  if (language() !== 'zh') return new Intl.ListFormat('en-GB', { type }).format(words);
  const text = new Intl.ListFormat('zh-CN', { type }).format(words);
  // Between Chinese and Latin letters there is a space.
  return text.replace(/(\w)(和|或)/g, '$1 $2').replace(/(和|或)(\w)/g, '$1 $2');
}

export function layerName(layer, decidedBy) {
  const key = `v.layer.${layer}`;
  return hasText(key) ? t(key) : decidedBy || layer || '';
}

export function time(us) {
  return html`<time datetime=${new Date(us / 1000).toISOString()} title=${formatMoment(us)}>${formatTime(us)}</time>`;
}

/** A long id or hash: its beginning, the whole in a tooltip, and a button that copies it. @param {string} value @param {{label?: string, length?: number}} [how] */
export function hash(value, { label, length = 12 } = {}) {
  if (!value) return nothing;
  const name = label ?? value.slice(0, length);
  return html`<span class="v-hash"><code title=${value}>${value.slice(0, length)}${value.length > length ? '…' : ''}</code
    ><button type="button" class="icon-btn v-copy" title=${t('common.copy')}
      aria-label=${t('v.copy_what', { what: name })} @click=${(event) => copy(event.currentTarget, value)}
    >${icon('copy')}</button></span>`;
}

async function copy(button, text) {
  if (!(await copyText(text))) return;
  button.classList.add('is-done');
  button.title = t('common.copied');
  setTimeout(() => {
    button.classList.remove('is-done');
    button.title = t('common.copy');
  }, 1500);
}

/** Begins a download without leaving the page. @param {string} url */
export function download(url) {
  const link = document.createElement('a');
  link.href = url;
  link.download = '';
  document.body.append(link);
  link.click();
  link.remove();
}

/** Calls `fn` once things have been quiet for `wait` ms, at the latest after `longest` ms. */
export function debounced(fn, wait, longest = wait * 5) {
  let timer = 0;
  let since = 0;
  const call = () => {
    const now = Date.now();
    if (!timer) since = now;
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = 0;
      fn();
    }, Math.max(0, Math.min(wait, since + longest - now)));
  };
  call.cancel = () => {
    clearTimeout(timer);
    timer = 0;
  };
  return call;
}
