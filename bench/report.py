"""The tables and the chart of a run, for a terminal and for docs/performance.md."""

from collections.abc import Iterator, Sequence
from html import escape
from math import log10

from bench.agent import Contestant
from bench.duties import Duty
from bench.rows import Row

WIDTH, LABEL, LINE = 860, 330, 24
MET, MISSED, OTHERS = "#2e7d57", "#b3402e", "#8a93a3"


def duties_of(rows: Sequence[Row]) -> list[tuple[Duty, Row]]:
    """Of each duty the row that strains it most: that one is the verdict."""
    by_duty = {duty: [row for row in rows if row.duty is duty] for duty in Duty}
    return [(duty, max(of, key=lambda row: row.strain)) for duty, of in by_duty.items() if of]


DUTY_HEAD = ("duty", "measured as", "value", "beside", "ratio", "target", "verdict")
CONTESTANT_HEAD = (
    "contestant", "CPU ms / session", "ms / step", "µs / piece", "step of 256 ÷ of 8", "import s",
    "RSS MB", "KB / concurrent session",
)  # fmt: skip


def duty_lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    return [
        (
            duty.what,
            row.what,
            f"{row.value:,.2f} {row.unit}",
            f"{row.beside:,.2f} {row.beside_what}",
            f"{row.ratio:,.2f}",
            row.bound,
            row.verdict,
        )
        for duty, row in duties_of(rows)
    ]


def contestant_lines(found: Sequence[Contestant]) -> list[tuple[str, ...]]:
    return [
        (
            each.name,
            f"{each.session_ms:.1f}",
            f"{each.step_ms:.2f}",
            f"{each.piece_us:.0f}",
            f"{each.growth:.1f}",
            f"{each.import_s:.2f}",
            f"{each.rss_mb:.0f}",
            f"{each.kb_at_once:.0f}",
        )
        for each in found
    ]


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])


# -- the chart --


Bar = tuple[str, float, str, str]


def duties_chart(rows: Sequence[Row]) -> str:
    bars = [(duty.what, row.strain, f"{row.strain:.2f}", row.verdict) for duty, row in duties_of(rows)]
    return _chart("Share of what is allowed (1 = the target; less is better; logarithmic)", bars, 1.0)


def contestants_chart(found: Sequence[Contestant]) -> str:
    bars = [
        (each.name, each.session_ms, f"{each.session_ms:.1f} ms", "met" if each.name == "Interlock" else "")
        for each in found
    ]
    return _chart("Processor time of one session, ms (less is better; logarithmic)", bars, None)


def _chart(title: str, bars: Sequence[Bar], mark: float | None) -> str:
    height = LINE * (len(bars) + 2)
    size = f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13"'
    paper = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', paper, *_panel(title, bars, mark, LINE)]
    return "\n".join([*parts, "</svg>\n"])


def _panel(title: str, bars: Sequence[Bar], mark: float | None, top: int) -> Iterator[str]:
    values = [value for _, value, _, _ in bars if value > 0] + ([mark] if mark else [])
    low = min(values) / 1.6
    scale = (WIDTH - LABEL - 90) / log10(max(values) / low)

    def length(value: float) -> float:
        return scale * log10(max(value, low) / low)

    yield f'<text x="12" y="{top}" font-weight="bold" fill="#1d2430">{escape(title)}</text>'
    if mark is not None:
        x, bottom = LABEL + length(mark), top + len(bars) * LINE + 8
        yield f'<path d="M{x:.1f} {top + 8}V{bottom}" stroke="#1d2430" stroke-width="1.5"/>'
    # A label may stand on the mark.
    halo = 'paint-order="stroke" stroke="#ffffff" stroke-width="5"'
    for place, (name, value, shown, verdict) in enumerate(bars, 1):
        y = top + place * LINE
        colour = {"met": MET, "MISSED": MISSED}.get(verdict, OTHERS)
        yield f'<text x="{LABEL - 8}" y="{y}" text-anchor="end" fill="#1d2430">{escape(name)}</text>'
        yield f'<rect x="{LABEL}" y="{y - 12}" width="{length(value):.1f}" height="15" fill="{colour}"/>'
        label = f'x="{LABEL + length(value) + 6:.1f}" y="{y}" fill="#1d2430" {halo}'
        yield f"<text {label}>{escape(shown)}</text>"
        if mark is not None and value > mark:
            yield f'<path d="M{x:.1f} {y - 12}v15" stroke="#ffffff" stroke-width="1.5"/>'
