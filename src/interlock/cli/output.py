"""How facts are printed: tables for people, JSON for machines, always on stdout."""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import Annotated, Any

import orjson
from cyclopts import Parameter, validators

from interlock.infra.text import json_value, visible

# C1 controls and the characters that reorder text.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

AsJson = Annotated[bool, Parameter(name="--json", negative=())]
# So many processes.
Workers = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=64))]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=1_000_000))]


def print_json(value: object) -> None:
    sys.stdout.write(_json(value, orjson.OPT_INDENT_2) + "\n")


def print_json_line(value: object) -> None:
    sys.stdout.write(_json(value, 0) + "\n")
    sys.stdout.flush()


def print_json_bytes(line: bytes) -> None:
    """A line that is JSON already, with its end."""
    sys.stdout.write(_harmless(line.decode()))


def _json(value: object, option: int) -> str:
    return _harmless(orjson.dumps(json_value(value), option=option).decode())


def _harmless(text: str) -> str:
    """JSON that is safe to look at: what a terminal would obey is escaped, which JSON allows."""
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_line(text: str = "") -> None:
    """One line, whatever is in it."""
    sys.stdout.write(visible(text) + "\n")


def print_text(text: str) -> None:
    """A text of its own lines."""
    sys.stdout.write(visible(text, lines=True) + "\n")


def note(text: str) -> None:
    """For the person, not for a pipe."""
    sys.stderr.write(visible(text, lines=True) + "\n")


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
        cells = [visible(str(cell)) for cell in row]
        table.add_row(*(cells if styles else [escape(cell) for cell in cells]))
    # A pipe has no width: let every row stay on its line.
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False).print(table)


def is_narrow(columns: int) -> bool:
    """Whether it is a terminal with fewer columns. A pipe has no width."""
    return sys.stdout.isatty() and get_terminal_size().columns < columns


def local_time(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
