"""One line of the table, and how its two sides are measured."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.duties import Duty


@dataclass(frozen=True, slots=True)
class Row:
    """`value` over `beside`, against `target`; a row without a target only informs.

    `duty` is what the row is the figure of; the least of its rows is the verdict on it.
    """

    what: str
    value: float
    beside: float
    unit: str
    beside_what: str
    target: float | None = None
    higher_is_better: bool = False
    duty: Duty | None = None

    @property
    def ratio(self) -> float:
        return self.value / self.beside

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        met = self.ratio >= self.target if self.higher_is_better else self.ratio <= self.target
        return "met" if met else "MISSED"

    @property
    def strain(self) -> float:
        """How much of what is allowed it takes: 1 is just met, 2 is twice too much."""
        if self.target is None:
            return 0.0
        return self.target / self.ratio if self.higher_is_better else self.ratio / self.target

    @property
    def bound(self) -> str:
        if self.target is None:
            return ""
        return f"{'≥' if self.higher_is_better else '≤'} {self.target:g}"


def interleaved(rounds: int, *sides: Callable[[], float]) -> list[float]:
    """The median of each side, measured in turn so that a slow moment of the machine hits all."""
    results: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, found in zip(sides, results, strict=True):
            found.append(side())
    return [statistics.median(found) for found in results]


def cpu_microseconds(times: int, work: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times * 1e6


def print_table(rows: list[Row]) -> None:
    head = ("what", "value", "beside", "ratio", "target", "verdict")
    lines = [
        (
            row.what,
            f"{row.value:,.2f} {row.unit}",
            f"{row.beside:,.2f} {row.beside_what}",
            f"{row.ratio:.2f}",
            row.bound,
            row.verdict,
        )
        for row in rows
    ]
    print_lines(head, lines)


def print_lines(head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    widths = [max(len(line[column]) for line in [head, *lines]) for column in range(len(head))]
    for line in [head, ["-" * width for width in widths], *lines]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
