// Evaluated in the page: sentences of the server as a reader of Chinese sees them.
async (sentences) => {
  const { inChinese } = await import('/static/js/texts-sentences.js');
  return sentences.map(inChinese);
}
