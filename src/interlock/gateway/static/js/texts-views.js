/** The words of the views beside the chat. */
import { RUN_TEXTS } from './runs/texts.js';
import { SERVER_TEXTS } from './servers/texts.js';
import { VIEWS_EN } from './views/texts-en.js';
import { VIEWS_ZH } from './views/texts-zh.js';

export const VIEW_TEXTS = {
  en: { ...VIEWS_EN, ...RUN_TEXTS.en, ...SERVER_TEXTS.en },
  zh: { ...VIEWS_ZH, ...RUN_TEXTS.zh, ...SERVER_TEXTS.zh },
};
