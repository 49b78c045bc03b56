/** What the page's elements offer to one another, for `tsc`. */
import type { LitElement } from 'lit/index.js';

declare global {
  interface HTMLElementTagNameMap {
    'il-call': LitElement;
    'il-composer': LitElement & { text: string; fill(text: string): void; tell(text: string): void };
    'il-event-details': LitElement & { focusHeading(): void };
    'il-system-list': LitElement & { focusRow(id: string): void };
    'il-timeline': LitElement & { focusRow(id: string): void };
  }
}
