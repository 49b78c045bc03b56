"""Looks for canaries, in every encoding and in pieces, wherever a secret could have been left behind."""

import base64
import html
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, quote_plus

import re2

from interlock.db.database import StoreConfig
from tests.canary.canaries import Canary

# So many characters of a secret in a row are a part of it, and no chance.
RUN = 8

Places = Mapping[str, bytes]


@dataclass(frozen=True)
class Sighting:
    """Which canary was seen where, and in what form."""

    place: str
    kind: str
    encoding: str
    around: bytes

    def __str__(self) -> str:
        return f"{self.kind} ({self.encoding}) in {self.place}: …{self.around!r}…"


def hunt(canaries: Iterable[Canary], places: Places) -> list[Sighting]:
    """Every canary that survived, once for each place and encoding."""
    return Hunter(canaries).hunt(places)


class Hunter:
    def __init__(self, canaries: Iterable[Canary]) -> None:
        self._owners: dict[bytes, tuple[str, str]] = {}
        for canary in canaries:
            for encoding, trace in traces(canary.secret):
                self._owners.setdefault(trace.lower(), (canary.kind, encoding))
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 512 * 1024 * 1024
        self._pattern = re2.compile(b"|".join(map(re2.escape, sorted(self._owners))), options)

    def hunt(self, places: Places) -> list[Sighting]:
        return [sighting for place, data in places.items() for sighting in self._seen(place, data)]

    def _seen(self, place: str, data: bytes) -> Iterator[Sighting]:
        """Cases are not told apart: an index of words has them all in lower case."""
        told: set[tuple[str, str]] = set()
        for found in self._pattern.finditer(data.lower()):
            owner = self._owners[found[0]]
            if owner not in told:
                told.add(owner)
                begin, end = found.span()
                yield Sighting(place, *owner, data[max(0, begin - 60) : end + 60])


def traces(secret: str) -> Iterator[tuple[str, bytes]]:
    """What would be left of a secret in each encoding: pieces that no other text has."""
    raw = secret.encode()
    yield from _runs("plain", secret, every=1)
    for name, wide in (("UTF-16 LE", "utf-16-le"), ("UTF-16 BE", "utf-16-be")):
        yield from _pieces(name, secret.encode(wide), RUN * 2)
    # UTF-16 that was taken for UTF-8, as a store can hold it.
    yield from _runs("UTF-16 as text", "\ufffd".join(secret), every=RUN)
    for name, encode in (("base64", base64.b64encode), ("url-safe base64", base64.urlsafe_b64encode)):
        for offset in range(3):
            # The first and last characters mix with what stands beside the secret.
            whole = encode(b"\0" * offset + raw)[offset + offset // 2 : (offset + len(raw)) * 4 // 3]
            yield from _pieces(f"{name} at offset {offset}", whole, 12)
    yield from _pieces("hex", raw.hex().encode(), RUN * 2)
    once = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    escaped = {
        "URL": [quote(secret, safe=""), quote(secret), quote_plus(secret)],
        "JSON": once,
        "JSON twice": [json.dumps(text)[1:-1] for text in once],
        "HTML": [html.escape(secret)],
    }
    for name, texts in escaped.items():
        yield from ((name, text.encode()) for text in texts if text != secret)


def _runs(name: str, text: str, *, every: int) -> Iterator[tuple[str, bytes]]:
    length = RUN if every == 1 else RUN * 2 - 1
    for start in range(0, max(1, len(text) - length + 1), every):
        yield name, text[start : start + length].encode()


def _pieces(name: str, data: bytes, length: int) -> Iterator[tuple[str, bytes]]:
    """Every second piece would do: what survives is seldom shorter than two."""
    cuts = [*range(0, max(1, len(data) - length + 1), length), len(data)]
    yield from ((name, data[start : start + length]) for start, _ in pairwise(cuts))


# -- places ------------------------------------------------------------------------------------------


def files_below(folder: Path, *, besides: Iterable[Path] = ()) -> dict[str, bytes]:
    """Every file as it is on disk, and what an archive holds."""
    left_out = tuple(besides)
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(path.is_relative_to(other) for other in left_out):
            name, data = str(path.relative_to(folder)), path.read_bytes()
            found |= {f"name of {name}": name.encode(errors="surrogateescape"), f"file {name}": data}
            if data.startswith(b"PK"):
                with zipfile.ZipFile(io.BytesIO(data)) as archive:
                    found |= {f"{name}: {member}": archive.read(member) for member in archive.namelist()}
    return found


_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'",
    "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
}


def tables_of(config: StoreConfig) -> dict[str, bytes]:
    """Every row of every table: texts and bytes as they are, all else as text."""
    connection = config.connect()
    try:
        names = [str(row[0]) for row in connection.query(_TABLES[connection.dialect])]
        return {
            f"table {name}": b"\n".join(
                _cell(cell) for row in connection.query(f'SELECT * FROM "{name}"') for cell in row
            )
            for name in names
        }
    finally:
        connection.close()


def _cell(cell: object) -> bytes:
    if isinstance(cell, bytes | memoryview):
        return bytes(cell)
    return str(cell).encode("utf-8", "surrogatepass")
