"""Which bytes are text, in which encoding, and where characters begin."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.tools.files.text_format import TextFormat, binary_file_error, detect_text_format


def form(data: bytes) -> TextFormat | None:
    return detect_text_format(data, is_whole=True)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        (b"plain", "utf-8"),
        ("grün".encode(), "utf-8"),
        ("grün".encode("latin-1"), "latin-1"),
        (codecs.BOM_UTF8 + b"x", "utf-8"),
        (codecs.BOM_UTF16_LE + "x".encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + "x".encode("utf-16-be"), "utf-16-be"),
        ("日本語 and one broken ".encode() + b"\xff" + "日本".encode(), "utf-8"),
    ],
)
def test_the_encoding_is_recognised(data, encoding):
    found = form(data)
    assert found is not None
    assert found.encoding == encoding


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (b"\x7fELF\x02\x01\x01", "a program"),
        (b"a\0b", "binary data"),
        (b"%PDF-1.7\n%", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive or office document"),
        (codecs.BOM_UTF32_LE + "x".encode("utf-32-le"), "binary data"),
    ],
)
def test_what_is_not_text_is_named(data, kind):
    assert form(data) is None
    assert kind in binary_file_error("f", len(data), data).message


def test_a_character_cut_by_the_end_of_the_head_does_not_make_it_another_encoding():
    data = "aé".encode()[:-1]
    assert detect_text_format(data, is_whole=False) == TextFormat()
    assert detect_text_format(data, is_whole=True) == TextFormat("latin-1")


@pytest.mark.parametrize(
    ("text", "ending"), [("a\r\nb\r\n", "\r\n"), ("a\nb\r\n", "\n"), ("a", "\n"), ("a\nb", "\n")]
)
def test_line_endings_are_windows_ones_only_where_all_are(text, ending):
    for encoding, mark in [("utf-8", b""), ("utf-16-le", codecs.BOM_UTF16_LE)]:
        found = form(mark + text.encode(encoding))
        assert found is not None
        assert found.line_ending == ending


FORMS = [TextFormat(), TextFormat("utf-16-le"), TextFormat("utf-16-be"), TextFormat("latin-1")]


@given(st.binary(max_size=50), st.sampled_from(FORMS))
def test_decoding_loses_nothing(data, form):
    whole = data if not form.encoding.startswith("utf-16") else data[: len(data) // 2 * 2]
    assert form.width(form.decode(data)) == len(whole)


@given(st.text("aé日😀\n", max_size=20), st.sampled_from(FORMS[:3]), st.integers(0, 80))
def test_a_boundary_is_the_nearest_place_behind_where_a_character_begins(text, form, at):
    data = text.encode(form.encoding)
    at = min(at, len(data))
    starts = {form.width(text[:count]) for count in range(len(text) + 1)}
    assert form.boundary(data, at) == min(start for start in starts if start >= at)


@given(st.binary(max_size=30), st.integers(0, 30))
def test_a_boundary_never_skips_a_byte_that_is_no_part_of_a_character(data, at):
    at = min(at, len(data))
    moved = TextFormat().boundary(data, at)
    if moved != at:
        assert any(len(data[begin:moved].decode("utf-8", "replace")) == 1 for begin in range(at))


@given(st.text("aé😀\n", min_size=1, max_size=30), st.sampled_from(FORMS[:3]))
def test_line_ends_are_found_in_any_encoding(text, form):
    data = text.encode(form.encoding)
    assert form.count_lines(data) == text.count("\n")
    for number in range(1, text.count("\n") + 1):
        end = form.end_of_line(data, number)
        assert form.decode(data[:end]).count("\n") == number
        assert form.decode(data[:end]).endswith("\n")
