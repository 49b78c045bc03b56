// Evaluated in the page: what it says of sums of costs, each given as a list of [known, isWhole].
async (sums) => {
  const { sumOfCosts } = await import('/static/js/views/spans.js');
  const { cost } = await import('/static/js/views/timeline.js');
  return sums.map((parts) => cost(sumOfCosts(parts.map(([known, isWhole]) => ({ known, isWhole })))));
}
