/** The time axis of a timeline. Long stretches in which nothing happened, or a question waited, are cut short. */

/** How wide a cut is, and all of them together, beside what is not cut. */
const CUT_SHARE = 0.12;
const ALL_CUTS_SHARE = 0.6;
const LONG_US = 2_000_000;
const NICE = [1, 2, 5];

/**
 * @param {import('./timeline-rows.js').Row[]} rows all of them
 * @returns {{at: (us: number) => number, ticks: {at: number, ms: number}[], cuts: {at: number, ms: number}[], span: number}}
 *   `at` gives a place from 0 to 100
 */
export function timeAxis(rows) {
  const start = Math.min(...rows.map((row) => row.start));
  const end = Math.max(...rows.map((row) => row.end), start + 1);
  const pieces = cutShort(start, end, quiet(rows, start, end));
  const total = pieces.reduce((sum, piece) => sum + piece.width, 0);
  const at = (us) => {
    let before = 0;
    for (const { from, to, width } of pieces) {
      if (us <= to) return ((before + (width * Math.max(0, us - from)) / (to - from)) / total) * 100;
      before += width;
    }
    return 100;
  };
  const cuts = pieces.filter(({ isCut }) => isCut)
    .map(({ from, to }) => ({ at: (at(from) + at(to)) / 2, from: at(from), to: at(to), ms: (to - from) / 1000 }));
  return { at, cuts, ticks: ticks(start, end, at, cuts), span: (end - start) / 1000 };
}

/** The stretches in which no turn and no call was at work. */
function quiet(rows, start, end) {
  const busy = rows
    .filter((row) => !row.isPoint && (row.core || ((row.category === 'call' || row.category === 'denied') && !row.children.length)))
    .map((row) => row.core ?? [row.start, row.end])
    .sort((a, b) => a[0] - b[0]);
  const gaps = [];
  let reached = start;
  for (const [from, to] of busy) {
    if (from > reached) gaps.push([reached, from]);
    reached = Math.max(reached, to);
  }
  if (end > reached) gaps.push([reached, end]);
  return gaps;
}

function cutShort(start, end, gaps) {
  const sum = (list) => list.reduce((total, [from, to]) => total + to - from, 0);
  const busy = end - start - sum(gaps);
  const long = gaps.filter(([from, to]) => to - from > LONG_US && to - from > busy / 2);
  const rest = Math.max(end - start - sum(long), 1);
  const width = rest * Math.min(CUT_SHARE, ALL_CUTS_SHARE / long.length);
  const pieces = [];
  let reached = start;
  for (const [from, to] of long) {
    if (from > reached) pieces.push({ from: reached, to: from, width: from - reached, isCut: false });
    pieces.push({ from, to, width: Math.min(width, to - from), isCut: true });
    reached = to;
  }
  if (end > reached) pieces.push({ from: reached, to: end, width: end - reached, isCut: false });
  return pieces;
}

function ticks(start, end, at, cuts) {
  const span = (end - start) / 1000;
  if (cuts.length) {
    // Beside a cut's own words there is no room for others.
    const first = cuts[0].at > 20 ? [{ at: 0, ms: 0 }] : [];
    return cuts.at(-1).at < 70 ? [...first, { at: 100, ms: span }] : first;
  }
  if (span < 4) return [{ at: 0, ms: 0 }];
  const rough = span / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (NICE.find((n) => n * power >= rough) ?? 10);
  const found = [];
  for (let ms = 0; ms <= span * 0.97; ms += step) found.push({ at: at(start + ms * 1000), ms });
  return found;
}
