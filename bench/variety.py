"""Redaction of much text that differs: what a pattern learns of it must still fit into its memory."""

import sysconfig
import time
from pathlib import Path

from bench.rows import Row
from interlock.redaction.redactor import Redactor

BYTES = 10 * 2**20
# Where it does not fit, everything is learned again and again, and the second time is like the first.
TIMES_FASTER = 2.0


def rows() -> list[Row]:
    texts = _other_peoples_code()
    size = sum(len(text.encode()) for text in texts)
    redactor = Redactor()
    first, again = (_rate(redactor, texts, size) for _ in range(2))
    what = f"redaction: {size / 1e6:.0f} MB of all kinds of code, the second time"
    return [Row(what, again, first, "MB/s", "MB/s the first time", TIMES_FASTER, higher_is_better=True)]


def _other_peoples_code() -> list[str]:
    """All of the standard library, as far as it goes: many hands and many subjects."""
    found: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if sum(map(len, found)) < BYTES:
            found.append(path.read_text("utf-8", "replace"))
    return found


def _rate(redactor: Redactor, texts: list[str], size: int) -> float:
    began = time.process_time()
    for text in texts:
        redactor.text(text)
    return size / (time.process_time() - began) / 1e6
