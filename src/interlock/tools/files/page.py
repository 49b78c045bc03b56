"""One page of a file's text, cut at a safe place: never inside a character, a line or a secret."""

from collections.abc import Callable
from dataclasses import dataclass

from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.files.text import TextForm

# A secret that begins before a page, or ends behind it, is recognised within this many bytes.
MARGIN_BYTES = 8192

ReadBytes = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What is wanted of a file: at most so many bytes and lines, ending with a line where `whole_lines`."""

    start: int
    max_bytes: int
    max_lines: int
    whole_lines: bool


@dataclass(frozen=True, slots=True)
class Page:
    """The text to show, and the bytes of the file it stands for. `end` is where the next page begins."""

    text: str
    start: int
    end: int
    lines: int
    cut_by_lines: bool


def read_page(read: ReadBytes, size: int, form: TextForm, request: PageRequest, redactor: Redactor) -> Page:
    """Secrets are taken out first and the cut comes second; what is shown never exceeds the limit."""
    window = _Window(read, size, form, request)
    limit = request.max_bytes
    while True:
        page = _cut(window, limit, request, redactor)
        excess = len(page.text.encode("utf-8", "replace")) - request.max_bytes
        # A mark can be longer than what it stands for, and a character longer than in its file.
        smaller = max(1, min(limit, page.end - page.start) - excess)
        if excess <= 0 or smaller >= limit:
            return page
        limit = smaller


class _Window:
    """The bytes wanted, and a margin on both sides in which secrets are recognised."""

    def __init__(self, read: ReadBytes, size: int, form: TextForm, request: PageRequest) -> None:
        first = max(request.start, len(form.mark))
        left = max(len(form.mark), first - MARGIN_BYTES)
        # Characters of two bytes begin at even places.
        left += (left - len(form.mark)) % 2 if form.encoding.startswith("utf-16") else 0
        data = read(left, first - left + request.max_bytes + MARGIN_BYTES)
        at = form.boundary(data, first - left)
        self.form = form
        self.size = size
        self.start = left + at
        self.before = form.decode(data[:at])
        self.data = data[at:]

    def body(self, limit: int) -> bytes:
        return self.form.whole_characters(self.data[:limit]) or self.data[: max(limit, 4)]

    def ends_at(self, length: int) -> bool:
        return self.start + length >= self.size


def _cut(window: _Window, limit: int, request: PageRequest, redactor: Redactor) -> Page:
    form = window.form
    body = window.body(limit)
    text = whole = form.decode(body)
    if request.whole_lines and not window.ends_at(len(body)):
        # A line that is longer than a page is cut all the same.
        text = text[: text.rfind("\n") + 1] or text
    by_lines = _end_of_lines(text, request.max_lines)
    cut_by_lines = by_lines < len(text)
    text = text[:by_lines]
    length = len(body) if text == whole else _bytes_of(text, body, form)
    after = form.decode(window.data[length : length + MARGIN_BYTES])
    shown, kept, beyond = _masked(window.before, text, after, redactor)
    if kept < len(text):
        length, cut_by_lines = _bytes_of(text[:kept], body, form), False
    elif beyond:
        length += len(form.encode(after[:beyond], "")) if "\ufffd" not in after[:beyond] else beyond
    end = min(window.start + length, max(window.size, window.start))
    return Page(shown, window.start, end, _count_lines(shown), cut_by_lines and end < window.size)


def _masked(before: str, text: str, after: str, redactor: Redactor) -> tuple[str, int, int]:
    """The text without secrets, how much of it was used, and how much of what follows belongs to it."""
    whole, first, last = before + text + after, len(before), len(before) + len(text)
    pieces, position, beyond = [], first, 0
    for begin, end in redactor.spans(whole):
        if end <= first or begin >= last:
            continue
        if end > last and begin > first:
            # It goes on behind the cut: leave all of it to the next page.
            pieces.append(whole[position:begin])
            return "".join(pieces), begin - first, 0
        pieces += [whole[position : max(begin, position)], MARK]
        position, beyond = min(end, last), max(0, end - last)
    pieces.append(whole[position:last])
    return "".join(pieces), last - first, beyond


def _bytes_of(text: str, body: bytes, form: TextForm) -> int:
    """How many bytes of the body a beginning of its text stands for."""
    if "\ufffd" not in text:
        return len(form.encode(text, ""))
    # Bytes that are no characters count as they are: find the length that decodes to just this text.
    low, high = 0, len(body)
    while low < high:
        middle = (low + high) // 2
        if len(form.decode(form.whole_characters(body[:middle]))) < len(text):
            low = middle + 1
        else:
            high = middle
    return low


def _end_of_lines(text: str, count: int) -> int:
    end = 0
    for _ in range(count):
        end = text.find("\n", end) + 1
        if end == 0:
            return len(text)
    return end


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") if text else 0)
