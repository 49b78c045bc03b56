"""Pages of any text in any encoding: joined they are the file, and no cut shows half of anything."""

import codecs
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.text import sanitize_text
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.files.text_format import TextFormat, detect_text_format
from interlock.tools.paging import (
    MARGIN_BYTES,
    MAX_LOOK_BACK_BYTES,
    PageRequest,
    PageText,
    find_open_key_block,
    read_text_page,
)

SECRET = "sk-Known-Secret"
REDACTOR = Redactor([SECRET])

FORMS = [
    TextFormat(),
    TextFormat("utf-8", codecs.BOM_UTF8),
    TextFormat("utf-16-le", codecs.BOM_UTF16_LE),
    TextFormat("utf-16-be", codecs.BOM_UTF16_BE),
    TextFormat("latin-1"),
]

_PIECES = st.one_of(
    st.sampled_from([SECRET, SECRET[:7], SECRET[7:], MARK, MARK[:5], "\n", "\r\n", "", "\n\n"]),
    st.text("aé日😀\n", max_size=12),
)
texts = st.lists(_PIECES, max_size=12).map("".join)
forms = st.sampled_from(FORMS)
sizes = st.integers(1, 60)


def body_of(text: str, form: TextFormat) -> bytes:
    return form.mark + text.encode(form.encoding, "replace")


def page_at(data: bytes, form: TextFormat, start: int, size: int, lines: int = 1000, whole_lines=False):
    def read(offset: int, count: int) -> bytes:
        return data[offset : offset + count]

    return read_text_page(read, len(data), form, PageRequest(start, size, lines, whole_lines), REDACTOR)


def pages_of(data: bytes, form: TextFormat, size: int, lines: int = 1000, whole_lines=False):
    pages = [page_at(data, form, 0, size, lines, whole_lines)]
    while not pages[-1].is_last:
        assert len(pages) <= len(data), "no progress"
        pages.append(page_at(data, form, pages[-1].end, size, lines, whole_lines))
    return pages


def expected(data: bytes, form: TextFormat) -> str:
    return sanitize_text(REDACTOR.text(form.decode(data[len(form.mark) :])))


@given(texts, forms, sizes, st.integers(1, 5), st.booleans())
def test_pages_joined_are_the_file(text, form, size, lines, whole_lines):
    data = body_of(text, form)
    pages = pages_of(data, form, size, lines, whole_lines)
    assert "".join(page.text for page in pages) == expected(data, form)
    assert pages[-1].end == max(len(data), len(form.mark))
    for before, after in pairwise(pages):
        assert before.end == after.start
        assert before.end > before.start


@given(st.binary(max_size=60), forms, sizes, st.booleans())
def test_bytes_that_are_no_characters_are_neither_lost_nor_shown_twice(noise, form, size, whole_lines):
    data = form.mark + noise + SECRET.encode(form.encoding) + noise
    pages = pages_of(data, form, size, 1000, whole_lines)
    assert "".join(page.text for page in pages) == expected(data, form)


@given(texts, forms, sizes, st.integers(1, 5), st.booleans())
def test_nothing_is_left_to_redact_on_a_page(text, form, size, lines, whole_lines):
    """No cut makes a secret of what was none, and none shows one: the runner takes a page as it is."""
    for page in pages_of(body_of(text, form), form, size, lines, whole_lines):
        assert type(page.text) is PageText
        assert REDACTOR.text(page.text) == page.text
        assert sanitize_text(page.text) == page.text


@given(texts, forms, sizes, st.integers(1, 5), st.booleans())
def test_a_page_keeps_to_its_limits(text, form, size, lines, whole_lines):
    """But for one character or one mark: something is always shown."""
    data = body_of(text, form)
    for page in pages_of(data, form, size, lines, whole_lines):
        assert len(page.text.encode()) <= size or len(page.text) == 1 or page.text == MARK
        assert page.lines <= lines
        assert page.cut_by_lines <= (not page.is_last)


@given(texts, forms, st.integers(1, 200), st.integers(0, 300))
def test_no_offset_shows_a_part_of_a_secret(text, form, size, offset):
    safe = text.replace(SECRET[:7], "").replace(SECRET[7:], "")
    data = body_of(f"{safe}{SECRET}{safe}", form)
    page = page_at(data, form, min(offset, len(data)), size)
    assert all(SECRET[at : at + 5] not in page.text for at in range(len(SECRET) - 4))


@given(texts, forms, st.integers(0, 300))
def test_any_offset_begins_with_a_whole_character(text, form, offset):
    data = body_of(text, form)
    page = page_at(data, form, min(offset, len(data)), 10_000)
    assert "\ufffd" not in page.text
    assert 0 <= page.start - max(min(offset, len(data)), len(form.mark)) < 4


@given(texts, forms, st.integers(20, 60))
def test_pages_of_whole_lines_end_with_a_line(text, form, size):
    data = body_of(text, form)
    for page in pages_of(data, form, size, whole_lines=True)[:-1]:
        assert page.text.endswith("\n") or "\n" not in page.text


@given(texts, forms, sizes)
def test_line_ends_are_counted_as_in_the_file(text, form, size):
    data = body_of(text, form)
    pages = pages_of(data, form, size)
    assert sum(page.line_ends for page in pages) <= form.decode(data).count("\n")
    assert sum(page.line_ends for page in pages) == form.decode(data).count("\n")


def test_a_mark_longer_than_the_page_is_shown_whole():
    page = page_at(SECRET.encode(), TextFormat(), 0, 1)
    assert page.text == MARK
    assert page.is_last


@pytest.mark.parametrize("character", ["é", "ÿ"])
def test_a_text_that_grows_when_it_is_shown_still_fills_its_pages(character):
    """Latin-1 letters are twice as long in UTF-8: half as many fit, and not one at a time."""
    data = character.encode("latin-1") * 10_000
    page = page_at(data, TextFormat("latin-1"), 0, 1000)
    assert page.text == character * 500


def test_a_file_full_of_secrets_still_fills_its_pages():
    short = Redactor(["123456"])
    data = b"123456 " * 1000

    def read(offset, count):
        return data[offset : offset + count]

    page = read_text_page(
        read, len(data), TextFormat(), PageRequest(0, 1000, 1000, whole_lines=False), short
    )
    assert page.text.count(MARK) == 66


def test_a_secret_over_several_lines_is_one_mark_and_keeps_the_line_count():
    key = "-----BEGIN KEY-----\nabcdefgh\nijklmnop\n-----END KEY-----"
    data = f"first\n{key}\nlast\n".encode()

    def read(offset, count):
        return data[offset : offset + count]

    for lines in range(1, 7):
        shown, at, ends = "", 0, 0
        while True:
            request = PageRequest(at, 1000, lines, whole_lines=True)
            page = read_text_page(read, len(data), TextFormat(), request, Redactor([key]))
            shown, at, ends = shown + page.text, page.end, ends + page.line_ends
            if page.is_last:
                break
        assert shown == f"first\n{MARK}\nlast\n"
        assert ends == data.count(b"\n")


def test_only_the_page_and_its_margins_are_read():
    asked = []

    def read(offset, count):
        asked.append((offset, count))
        return b"x_" * (count // 2)

    read_text_page(read, 2**40, TextFormat(), PageRequest(2**39, 1000, 10, whole_lines=False), REDACTOR)
    assert asked == [(2**39 - MARGIN_BYTES, 1000 + 2 * MARGIN_BYTES)]


def test_where_a_key_might_have_begun_earlier_it_is_looked_for_within_bounds():
    asked = []

    def read(offset, count):
        asked.append((offset, count))
        return b"x" * count

    read_text_page(read, 2**40, TextFormat(), PageRequest(2**39, 1000, 10, whole_lines=False), REDACTOR)
    page, *earlier = asked
    assert page == (2**39 - MARGIN_BYTES, 1000 + 2 * MARGIN_BYTES)
    assert sum(count for _, count in earlier) == MAX_LOOK_BACK_BYTES
    assert min(offset for offset, _ in earlier) == page[0] - MAX_LOOK_BACK_BYTES


def test_a_file_that_became_shorter_ends_where_it_ends():
    page = page_at(b"abc", TextFormat(), 0, 100)
    assert page.is_last

    def read(offset, count):
        return b"abc"[offset : offset + count]

    page = read_text_page(read, 1000, TextFormat(), PageRequest(0, 100, 10, whole_lines=True), REDACTOR)
    assert (page.text, page.end, page.is_last) == ("abc", 3, True)


@given(st.binary(max_size=80), st.integers(0, 80))
def test_the_form_of_any_bytes_can_be_paged(data, at):
    form = detect_text_format(data, is_whole=True)
    if form is not None:
        page = page_at(data, form, min(at, len(data)), 10)
        assert page.end <= max(len(data), len(form.mark))


@pytest.mark.parametrize("opening", ["", "-----BEGIN PRIVATE KEY-----\n"])
def test_what_was_looked_at_before_is_not_looked_at_again(opening):
    asked = []

    def read(offset, count):
        asked.append(offset)
        return b"x" * count

    found = find_open_key_block(read, 10**6, TextFormat(), "x" * 1000, (9 * 10**5, opening))
    assert (found, min(asked)) == (opening, 9 * 10**5)
