/** In place of lit, where there is no document. */
export const nothing = Symbol('nothing');
export const html = (strings, ...values) => ({ strings, values });
export const svg = html;
export const plain = (text) => text;
export const render = () => {};
export const guard = (_, draw) => draw();
export const live = (value) => value;
export const repeat = (items, _, draw) => items.map(draw);
export class LitElement {}
