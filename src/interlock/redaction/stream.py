"""Redacts streamed text, wherever it is cut.

What the text's end may still become waits: its last word, the rest of the line (of some rules, the next
lines) behind the beginning of a possible secret, at most 512 bytes, the beginning of a known value, and a
secret itself until something else follows it.
All else is returned at once, and the result is the same as for the whole text. Memory is bounded: of a
secret longer than `MAX_HELD` the middle is dropped, since only its mark is returned; a word that long whose
match is still undecided is returned unmasked.
"""

import re

from interlock.redaction.candidate import LOOKS_BACK
from interlock.redaction.scanner import Scanner, SecretMatch

MAX_HELD = 64 * 1024
# So much of a secret that is too long is kept at both ends.
_KEPT = 4 * 1024
# Text is scanned when so much has been added: a few words or a line, and an eighth of what is held.
# Otherwise a long secret in small deltas would be scanned once for each of them.
_LEAST, _SHARE = 32, 8
# What may be behind a secret that goes on: the next item of a list, the next line of a key.
_GOES_ON = re.compile(rb"[\s,\"'`]{0,96}[^\s]*")
_CONTEXT = LOOKS_BACK + 8


class RedactionStream:
    """`feed` it deltas and pass on what it returns; `finish` returns the rest."""

    def __init__(self, scanner: Scanner, mark: str) -> None:
        self._scanner = scanner
        self._mark = mark.encode()
        self._before = b""
        self._held = b""
        self._added = bytearray()
        self.changed = False

    @property
    def held(self) -> int:
        """The number of bytes held back."""
        return len(self._held) + len(self._added)

    @property
    def is_unscanned(self) -> bool:
        """Whether `scan` may release more."""
        return bool(self._added)

    def feed(self, text: str) -> str:
        self._added += text.encode("utf-8", "surrogatepass")
        added = len(self._added)
        if (added < _LEAST and "\n" not in text) or added * _SHARE < len(self._held):
            return ""
        return self.scan()

    def scan(self) -> str:
        """The text that can be released now, however little has been added."""
        data, first = self._take(), len(self._before)
        undecided = self._scanner.undecided_from(data, first)
        if undecided == first and len(data) - first <= MAX_HELD:
            self._held = data[first:]
            return ""
        found = self._scanner.scan_with_rejected(data, first)
        return self._release(data, first, _cut(data, found, undecided), found)

    def finish(self) -> str:
        """The text that was held back, now that nothing follows."""
        data, first = self._take(), len(self._before)
        shown = self._release(data, first, len(data), self._scanner.find(data, first))
        self._before = b""
        return shown

    def _take(self) -> bytes:
        data = self._before + self._held + self._added
        self._added.clear()
        return data

    def _release(self, data: bytes, first: int, cut: int, found: list[SecretMatch]) -> str:
        if len(data) - cut > MAX_HELD:
            data, cut, found = self._shortened(data, cut, found)
        pieces, position = [], first
        for each in found:
            if each.begin >= cut:
                break
            if each.end > position and each.begin < each.end:
                if each.begin >= position:
                    pieces += [data[position : each.begin], self._mark]
                position = each.end
        pieces.append(data[position:cut])
        self._before, self._held = data[max(0, cut - _CONTEXT) : cut], data[cut:]
        if len(pieces) > 1:
            self.changed = True
        return b"".join(pieces).decode("utf-8", "surrogatepass")

    def _shortened(
        self, data: bytes, cut: int, found: list[SecretMatch]
    ) -> tuple[bytes, int, list[SecretMatch]]:
        """Drop the middle of a secret that fills the buffer; else release the older half."""
        for each in found:
            if each.begin >= cut and each.end - each.begin > MAX_HELD // 2:
                short = data[: each.begin + _KEPT] + data[each.end - _KEPT :]
                return short, cut, [other for other in found if other.end <= cut]
        half = len(data) - MAX_HELD // 2
        while half < len(data) and data[half] & 0xC0 == 0x80:
            half += 1
        # A rejected match may reach over all of it.
        secrets = [each for each in found if each.begin < each.end]
        return data, _cut(data, secrets, half), found


def _cut(data: bytes, found: list[SecretMatch], undecided: int) -> int:
    """Where the returned text may end: not inside a match, of which a part could belong to a longer one."""
    start = stop = -1
    for each in sorted(found, key=lambda each: each.start):
        if each.start >= undecided:
            break
        goes_on = each.begin < each.end and _GOES_ON.fullmatch(data, each.stop)
        reach = len(data) + 1 if goes_on else each.stop + 1
        if each.start >= stop:
            start, stop = each.start, reach
        else:
            stop = max(stop, reach)
    return start if start < undecided < stop else undecided
