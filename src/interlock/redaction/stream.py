"""Redacts streamed text, wherever it is cut, and holds back no more than it must.

Text that could still become a secret waits; all else is returned at once. The result is the same as for the
whole text. Memory is bounded: of a secret longer than `MAX_HELD` the middle is dropped, since only its mark
is returned; a text that long whose match is still undecided is returned unmasked.
"""

from interlock.redaction.candidate import LOOKS_BACK
from interlock.redaction.scanner import Scanner, SecretMatch, last_word

MAX_HELD = 64 * 1024
# So much of a secret that is too long is kept at both ends.
_KEPT = 4 * 1024
# Up to this size, a delta is first checked for whether anything in it could matter at all.
_SHORT = 1024
# With so much held, it is scanned again only when an eighth of it has been added: otherwise a long secret
# in small deltas would be scanned once for each of them.
_MUCH = 512
_SHARE = 8
_MAX_WORD = 24
_CONTEXT = LOOKS_BACK + 8


class RedactionStream:
    """`feed` it deltas and pass on what it returns; `finish` returns the rest."""

    def __init__(self, scanner: Scanner, mark: str) -> None:
        self._scanner = scanner
        self._heads_in, self._first_in = scanner.heads, scanner.first_characters_pattern.search
        self._mark = mark.encode()
        self._before = b""
        self._held = b""
        self._added = bytearray()
        self.changed = False

    @property
    def held(self) -> int:
        """The number of bytes held back."""
        return len(self._held) + len(self._added)

    def feed(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        if not self._held and not text.isascii() and not self._first_in(text):
            # Most scripts have no character that a secret begins with.
            self._remember(data)
            return text
        if len(self._held) >= _MUCH:
            self._added += data
            if len(self._added) * _SHARE < len(self._held):
                return ""
            data = self._take_added()
        data = self._held + data
        # Nearly all text takes this path.
        is_plain = len(data) <= _SHORT and not self._heads_in(self._before[-1:] + data)
        if is_plain:
            word = last_word(data)
            if len(data) - word <= _MAX_WORD:
                if not word:
                    self._held = data
                    return ""
                shown, self._held = data[:word], data[word:]
                self._remember(shown)
                return shown.decode("utf-8", "surrogatepass")
        # A long text without spaces is scanned in full.
        self._before = self._before[-_CONTEXT:]
        first = len(self._before)
        data = self._before + data
        unfinished = self._scanner.unfinished_from(data, first)
        found = [] if is_plain or len(data) == first else self._scanner.scan_with_rejected(data, first)
        return self._release(data, first, _cut(found, unfinished), found)

    def finish(self) -> str:
        """The text that was held back, now that nothing follows."""
        data, first = self._before + self._held + self._take_added(), len(self._before)
        shown = self._release(data, first, len(data), self._scanner.find(data, first))
        self._before = b""
        return shown

    def _remember(self, shown: bytes) -> None:
        """Keep returned text as context; it is shortened seldom, since that copies."""
        self._before += shown
        if len(self._before) > _SHORT:
            self._before = self._before[-_CONTEXT:]

    def _take_added(self) -> bytes:
        added = bytes(self._added)
        self._added.clear()
        return added

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
        return data, _cut(found, half), found


def _cut(found: list[SecretMatch], unfinished: int) -> int:
    """Where the returned text may end: not inside a match, of which a part could belong to a longer one."""
    start = stop = -1
    for each in sorted(found, key=lambda each: each.start):
        if each.start >= unfinished:
            break
        if each.start >= stop:
            start, stop = each.start, each.stop
        else:
            stop = max(stop, each.stop)
    return start if start < unfinished < stop else unfinished
