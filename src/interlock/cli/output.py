"""Output of results on stdout: tables for people, JSON for machines."""

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import Annotated, Any

import orjson
from cyclopts import Parameter, validators

from interlock.core.text import escape_control_characters, to_json_value

# C1 controls and characters that reorder text.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

AsJson = Annotated[bool, Parameter(name="--json", negative=(), help="Print the same facts as JSON.")]
# For streamed output; each command documents its own lines.
AsJsonLines = Annotated[bool, Parameter(name="--json", negative=())]
# An export has only this format.
AlwaysJson = Annotated[
    bool, Parameter(name="--json", negative=(), help="No effect: an export is always JSON lines.")
]
# Longer words, such as paths, may be broken where the terminal is narrow.
LONG_WORD = 20
GAP = 3
PIPE_COLUMNS = 200
# A number of processes.
WorkerCount = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=64))]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=1_000_000))]


def print_json(value: object) -> None:
    sys.stdout.write(_json(value, orjson.OPT_INDENT_2) + "\n")


def print_json_line(value: object) -> None:
    sys.stdout.write(_json(value, 0) + "\n")
    sys.stdout.flush()


def print_json_bytes(line: bytes) -> None:
    """Print a line that is already JSON, newline included."""
    sys.stdout.write(_harmless(line.decode()))


def _json(value: object, option: int) -> str:
    return _harmless(orjson.dumps(to_json_value(value), option=option).decode())


def _harmless(text: str) -> str:
    """Escape terminal control characters in JSON text, which JSON allows."""
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_line(text: str = "") -> None:
    """Print one line; control characters and newlines are escaped."""
    sys.stdout.write(escape_control_characters(text) + "\n")


def print_text(text: str) -> None:
    """Print a text of several lines; other control characters are escaped."""
    sys.stdout.write(escape_control_characters(text, lines=True) + "\n")


def note(text: str) -> None:
    """Print to stderr, for the person rather than a pipe."""
    # Keep the order of the output where stdout and stderr go to the same place.
    with suppress(OSError):
        sys.stdout.flush()
    sys.stderr.write(escape_control_characters(text, lines=True) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, styles: bool = False) -> None:
    """Print a plain table as wide as its content; with `styles`, cells may contain rich markup."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    given = [[escape_control_characters(str(cell)) for cell in row] for row in rows]
    # A pipe has no width: keep every row on one line.
    room = get_terminal_size().columns if sys.stdout.isatty() else PIPE_COLUMNS
    plain = [[_plain(cell, styled=styles) for cell in cells] for cells in zip(columns, *given, strict=True)]
    widths, is_tight = _fitted(plain, room)
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", collapse_padding=is_tight
    )
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column, overflow="fold", width=width)
    for cells in given:
        table.add_row(*(cells if styles else [escape(cell) for cell in cells]))
    Console(width=max(room, _taken(widths, GAP)), highlight=False).print(table)


def _fitted(cells: list[list[str]], room: int) -> tuple[list[int], bool]:
    """The width of each column, the widest shrunk first, and whether the gaps shrink as well.

    A broken name cannot be copied, so names shrink last; dates may be broken before them.
    """
    widths = [_widest(line for cell in column for line in cell.split("\n")) for column in cells]
    words = [min(_widest(word for cell in column for word in cell.split()), LONG_WORD) for column in cells]
    # The first column identifies the row: never break its words.
    words[0] = _widest(word for cell in cells[0] for word in cell.split())
    least = [width if width <= LONG_WORD else word for width, word in zip(widths, words, strict=True)]
    if _taken(least, GAP) > room:
        least = words
    is_tight = _taken(least, GAP) > room
    while _taken(widths, GAP - is_tight) > room and widths != least:
        loose = [number for number, width in enumerate(widths) if width > least[number]]
        widths[max(loose, key=lambda number: widths[number])] -= 1
    return widths, is_tight


def _taken(widths: list[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _widest(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _plain(cell: str, *, styled: bool) -> str:
    from rich.text import Text

    return Text.from_markup(cell).plain if styled else cell


def is_narrow(columns: int) -> bool:
    """Whether stdout is a terminal with fewer columns. A pipe has no width."""
    return sys.stdout.isatty() and get_terminal_size().columns < columns


def local_time(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
