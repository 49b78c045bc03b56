/** What a session is made with when its first message is sent. */
import { modelNames } from '../session-store.js';

const TITLE_CHARS = 60;

/** @param {string} text @param {{mode?: string, agent?: string, model?: string}} choice */
export function beginning(text, { mode, agent, model }) {
  const isListed = modelNames().includes(model);
  return { title: titleFrom(text), ...(mode && { mode }), ...(agent && { agent }), ...(model && isListed && { model }) };
}

function titleFrom(text) {
  const line = text.trim().split('\n', 1)[0].trim();
  const letters = [...line];
  return letters.length > TITLE_CHARS ? `${letters.slice(0, TITLE_CHARS).join('').trimEnd()}…` : line;
}
