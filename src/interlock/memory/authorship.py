"""The author line of an entry: who or what wrote it, and when.

The line is authenticated with a key of this installation and covers the lines below it. No text can fake
it, and an entry that was edited by hand afterwards no longer has an author.
"""

import errno
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

KEY_BYTES = 32
HASH_CHARS = 32
_MAX_FIELD_CHARS = 100

# What would end a field, or the line's emphasis, or its comment.
_NOT_IN_FIELD = re.compile(r"[^\w .@:/+-]+")
_VISIBLE = r"[^*<>\r\n]{1,800}"
_LINE = re.compile(
    rf"\*Written ({_VISIBLE})\* <!-- interlock:(\d{{1,7}}):([0-9a-f]{{32}}):([0-9a-f]{{32}}) -->\s*"
)
_FORM = re.compile(r"\*Written .{1,1000}\* <!-- interlock:\S{1,100} -->\s*")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class NoteAuthor:
    """Who or what wrote an entry; empty where there is none."""

    tool: str = ""
    agent: str = ""
    person: str = ""
    channel: str = ""
    task: str = ""

    def redacted(self, redact: Callable[[str], str]) -> "NoteAuthor":
        return NoteAuthor(*(redact(getattr(self, field.name)) for field in fields(self)))

    def __str__(self) -> str:
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return "; ".join(f"{name} {plain}" for name, given in named if (plain := _plain(given)))


def describe_author(written_at: str, author: NoteAuthor) -> str:
    """The visible part of an author line."""
    return f"{written_at} by {author}"


def parse_author(statement: str) -> tuple[str, NoteAuthor]:
    """The time and the author of a visible part."""
    written_at, _, author = statement.partition(" by ")
    named = (part.partition(" ") for part in author.split("; "))
    known = {field.name for field in fields(NoteAuthor)}
    return written_at, NoteAuthor(**{name: given for name, _, given in named if name in known})


class AuthorLines:
    """Writes and verifies author lines with the key in a file, which is made with the first of them."""

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file
        self._key = b""

    def line(self, statement: str, content: str) -> str:
        """The author line of an entry with this content, which follows it after one empty line."""
        lines = ["", *_LINE_END.split(content)]
        digest = _digest(lines)
        seal = self._seal(statement, len(lines), digest)
        return f"*Written {statement}* <!-- interlock:{len(lines)}:{digest}:{seal} -->"

    def read(self, text: str, redacted: str) -> dict[int, str]:
        """By line number, from one, what the valid author line of an entry says; for that line too.

        `redacted` is the text as it will be shown: if it has not the same lines, no author is known.
        """
        if "<!-- interlock:" not in text:
            return {}
        lines = _LINE_END.split(text)
        if len(lines) != len(_LINE_END.split(redacted)):
            return {}
        found: dict[int, str] = {}
        for first, count, statement in self._entries(lines):
            found.update(dict.fromkeys(range(first, first + count + 1), statement))
        return found

    def _entries(self, lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """The number of each valid author line, how many lines it covers, and what it says."""
        covered = 0
        for number, line in enumerate(lines, start=1):
            found = _LINE.fullmatch(line) if number > covered else None
            if found is None:
                continue
            statement, count, digest, seal = found[1], int(found[2]), found[3], found[4]
            # The seal comes first: only lines of ours make anything be hashed.
            if not hmac.compare_digest(seal, self._seal(statement, count, digest)):
                continue
            if _digest(lines[number : number + count]) == digest:
                covered = number + count
                yield number, count, statement

    def _seal(self, statement: str, count: int, digest: str) -> str:
        if not self._key:
            self._key = self._read_key()
        sealed = f"{statement}\n{count}\n{digest}".encode()
        return hmac.new(self._key, sealed, hashlib.sha256).hexdigest()[:HASH_CHARS]

    def _read_key(self) -> bytes:
        try:
            key = self._key_file.read_bytes()
        except FileNotFoundError:
            key = self._made_key()
        if len(key) != KEY_BYTES:
            # With a known key, such as that of an emptied file, a text could seal its own author line.
            raise OSError(errno.EINVAL, f"{self._key_file} is damaged; restore or remove it")
        return key

    def _made_key(self) -> bytes:
        """A new key. If several processes make one at once, all use the one that was linked first."""
        self._key_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours = self._key_file.with_name(f".{self._key_file.name}.{secrets.token_hex(8)}")
        descriptor = os.open(ours, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(ours, self._key_file)
        finally:
            ours.unlink()
        return self._key_file.read_bytes()


def is_author_line(line: str) -> bool:
    """Whether a line has the form of one, valid or not, or with masks in it."""
    return _FORM.fullmatch(line) is not None


def _digest(lines: Sequence[str]) -> str:
    """Without spaces at line ends, which editors remove."""
    text = "\n".join(line.rstrip() for line in lines)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:HASH_CHARS]


def _plain(given: str) -> str:
    return " ".join(_NOT_IN_FIELD.sub("_", given).split())[:_MAX_FIELD_CHARS]
