"""Destinations of exports: stdout or a new file. Files and pipes get exactly the bytes that were hashed."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.cli.output import note, print_json_bytes
from interlock.core.errors import UserError

WriteLines = Callable[[Iterable[bytes]], None]


@contextmanager
def open_export(out: Path | None) -> Iterator[WriteLines]:
    """Yield a function that writes lines a page at a time. On an error, the incomplete file is deleted."""
    if out is None:
        yield _to_terminal if sys.stdout.isatty() else _to_pipe
        return
    written = 0
    try:
        descriptor = os.open(out, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:

            def write(lines: Iterable[bytes]) -> None:
                nonlocal written
                for line in lines:
                    file.write(line)
                    written += 1

            yield write
    except BaseException as error:
        out.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UserError(f"{out} cannot be written: {error.strerror}") from None
        raise
    note(f"wrote {written} lines to {out}")


def _to_terminal(lines: Iterable[bytes]) -> None:
    for line in lines:
        print_json_bytes(line)


def _to_pipe(lines: Iterable[bytes]) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.writelines(lines)
    sys.stdout.buffer.flush()
