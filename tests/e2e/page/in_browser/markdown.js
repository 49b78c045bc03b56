// Evaluated in the page by test_modules.py, with the name of a check and what it is given.
async ([name, ...given]) => {
  const { render } = await import('lit');
  const { markdown } = await import('/static/js/markdown.js');
  const box = document.createElement('div');

  const isBad = ({ name: attribute, value }) =>
    attribute.startsWith('on') || (attribute === 'href' && !/^(https?:|mailto:)/.test(value));

  const checks = {
    words(text) {
      render(markdown(text), box);
      return box.textContent;
    },

    elements(text) {
      render(markdown(text), box);
      return [...box.querySelectorAll('*')].map((element) => element.localName);
    },

    /** Texts at random, the same each time: which elements come of them, and which attributes that must not. */
    mixtures(pieces, rounds) {
      let seed = 7;
      const next = (below) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
      const found = new Set();
      for (let round = 0; round < rounds; round++) {
        render(markdown(Array.from({ length: 1 + next(24) }, () => pieces[next(pieces.length)]).join('')), box);
        for (const element of box.querySelectorAll('*')) {
          found.add(element.localName);
          for (const attribute of element.attributes) if (isBad(attribute)) found.add(attribute.value);
        }
      }
      return [...found];
    },
  };
  return checks[name](...given);
}
