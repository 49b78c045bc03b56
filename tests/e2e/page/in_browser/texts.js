// Evaluated in the page: all its words, by language, and how many each file has.
async () => {
  const { SHELL_TEXTS } = await import('/static/js/texts-shell.js');
  const { CHAT_TEXTS } = await import('/static/js/texts-chat.js');
  const { SLASH_TEXTS } = await import('/static/js/texts-slash.js');
  const { VIEW_TEXTS } = await import('/static/js/texts-views.js');
  const parts = [SHELL_TEXTS, CHAT_TEXTS, SLASH_TEXTS, VIEW_TEXTS];
  return {
    en: Object.assign({}, ...parts.map(({ en }) => en)),
    zh: Object.assign({}, ...parts.map(({ zh }) => zh)),
    count: parts.reduce((sum, { en }) => sum + Object.keys(en).length, 0),
  };
}
