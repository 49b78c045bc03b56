// Where the focus is, and whether it can be seen there: something looks different from when it is elsewhere.
() => {
  const at = document.activeElement;
  if (at === document.body) return { name: '', seen: true };
  const looks = (element) => {
    const { outlineStyle, outlineWidth, boxShadow, borderColor, backgroundColor } = getComputedStyle(element);
    return [outlineStyle !== 'none' && outlineWidth !== '0px', boxShadow, borderColor, backgroundColor];
  };
  const around = [at, at.closest('.composer-box, .choice, .rate, label')].filter(Boolean);
  const now = JSON.stringify(around.map(looks));
  at.blur();
  const then = JSON.stringify(around.map(looks));
  at.focus({ focusVisible: true, preventScroll: true });
  return { name: at.getAttribute('aria-label') ?? at.innerText ?? '', seen: now !== then };
}
