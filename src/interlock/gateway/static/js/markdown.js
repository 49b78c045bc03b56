/** Markdown as lit templates. Nothing is ever set as HTML: what looks like a tag in a text is shown as text. */
import { html, nothing } from 'lit';
import { guard } from 'lit/directives/guard.js';
import { splitMarkdown, parseMarkdown } from './markdown/block-parser.js';
import { deceptiveTarget } from './markdown/inline-parser.js';
import { copyButton } from './copy-button.js';
import { t } from './i18n.js';

const HEADINGS = {
  3: (kids, dir) => html`<h3 dir=${dir}>${kids}</h3>`,
  4: (kids, dir) => html`<h4 dir=${dir}>${kids}</h4>`,
  5: (kids, dir) => html`<h5 dir=${dir}>${kids}</h5>`,
  6: (kids, dir) => html`<h6 dir=${dir}>${kids}</h6>`,
};

/**
 * A text that may still grow. Pieces that did not change are not parsed again.
 * @param {string} text
 */
export function markdown(text) {
  return splitMarkdown(text).map((piece) => guard([piece, document.documentElement.lang], () => parseMarkdown(piece).map((it) => block(it))));
}

/**
 * Each block runs the way its own words do, and what is in it the same way: a list has its marks on one side.
 * @param {import('./markdown/block-parser.js').Block} it @param {boolean} [isInner]
 */
function block(it, isInner = false) {
  const dir = isInner ? nothing : 'auto';
  const inner = (kid) => block(kid, true);
  switch (it.t) {
    case 'p':
      return html`<p dir=${dir}>${it.kids.map(inline)}</p>`;
    case 'h':
      // The page has its own first two levels.
      return HEADINGS[Math.min(6, it.level + 2)](it.kids.map(inline), dir);
    case 'hr':
      return html`<hr />`;
    case 'code':
      return codeBlock(it.v, it.lang, !it.open);
    case 'quote':
      return html`<blockquote dir=${dir}>${it.kids.map(inner)}</blockquote>`;
    case 'list':
      return it.ordered
        ? html`<ol dir=${dir} start=${it.start}>${it.items.map((item) => listItem(item, it.loose))}</ol>`
        : html`<ul dir=${dir}>${it.items.map((item) => listItem(item, it.loose))}</ul>`;
    case 'table':
      return table(it);
    default:
      return '';
  }
}

function listItem(item, loose) {
  const kids = item.kids.map((kid) => (kid.t === 'p' && !loose ? kid.kids.map(inline) : block(kid, true)));
  if (item.checked === null) return html`<li>${kids}</li>`;
  const label = t(item.checked ? 'markdown.done' : 'markdown.todo');
  return html`<li class="task-item">
    <input type="checkbox" disabled .checked=${item.checked} aria-label=${label} />
    <div>${kids}</div>
  </li>`;
}

function table({ head, rows, align }) {
  const side = (column) => (align[column] ? `align-${align[column]}` : '');
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label=${t('markdown.table')}>
    <table class="grid">
      <thead>
        <tr>${head.map((cell, n) => html`<th scope="col" dir="auto" class=${side(n)}>${cell.map(inline)}</th>`)}</tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`<tr>${row.map((cell, n) => html`<td dir="auto" class=${side(n)}>${cell.map(inline)}</td>`)}</tr>`)}
      </tbody>
    </table>
  </div>`;
}

/** @param {string} code @param {string} [lang] @param {boolean} [copies] */
export function codeBlock(code, lang = '', copies = true) {
  const label = lang || t('markdown.code');
  return html`<figure class="code">
    <figcaption><span>${label}</span>${copies ? copyButton(() => code) : ''}</figcaption>
    <pre tabindex="0" aria-label=${label}><code>${code}</code></pre>
  </figure>`;
}

/** @param {import('./markdown/inline-parser.js').Node} it */
function inline(it) {
  switch (it.t) {
    case 'text':
      return it.v;
    case 'code':
      return html`<code>${it.v}</code>`;
    case 'br':
      return html`<br />`;
    case 'strong':
      return html`<strong>${it.kids.map(inline)}</strong>`;
    case 'em':
      return html`<em>${it.kids.map(inline)}</em>`;
    case 'del':
      return html`<del>${it.kids.map(inline)}</del>`;
    case 'link':
      return link(it, it.kids.map(inline));
    case 'image':
      // An image would be a request to another server.
      return link(it, [t('markdown.image'), ' ', it.kids.map(inline)]);
    default:
      return '';
  }
}

/**
 * Where an address may not be followed, or its words name another one, it is shown; its title is, always.
 * @param {{href: string|null, shown: string, title?: string, kids: any[]}} it @param {unknown} label
 */
function link({ href, shown, title, kids }, label) {
  if (title) return html`${link({ href, shown, kids }, label)} <span class="muted">(${title})</span>`;
  if (href === null) return html`${label} <span class="muted">(${shown})</span>`;
  const words = kids.length ? label : shown;
  const place = deceptiveTarget(href, kids.length ? textOf(kids) : shown);
  return html`<a href=${href} target="_blank" rel="noopener noreferrer" title=${href}>${words}${place ? html` <span class="muted">(${place})</span>` : ''}</a>`;
}

const textOf = (kids) => kids.map((kid) => kid.v ?? textOf(kid.kids ?? [])).join('');
