/** The words of the views Settings, Authority and Activity. */
import { VIEWS_EN } from './views/texts-en.js';
import { VIEWS_ZH } from './views/texts-zh.js';

export const VIEW_TEXTS = { en: VIEWS_EN, zh: VIEWS_ZH };
