"""How facts are printed: tables for people, JSON for machines, always on stdout."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

AsJson = Annotated[bool, Parameter(name="--json", negative=())]


def print_json(value: object) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def print_json_line(value: object) -> None:
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()


def print_line(text: str = "") -> None:
    sys.stdout.write(_visible(text) + "\n")


def note(text: str) -> None:
    """For the person, not for a pipe."""
    sys.stderr.write(_visible(text) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, styles: bool = False) -> None:
    """A plain table that fits its content; cells may carry rich markup when `styles` is set."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number == 0)
    for row in rows:
        cells = [_visible(str(cell)) for cell in row]
        table.add_row(*(cells if styles else [escape(cell) for cell in cells]))
    # A pipe has no width: let every row stay on its line.
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False).print(table)


def local_time(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _visible(text: str) -> str:
    """Without control characters: stored text must not be able to drive the reader's terminal."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else f"\\x{ord(character):02x}"
        for character in text
    )
