"""Lines by their number, in files of any size and encoding."""

import codecs
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.sandbox import file_io
from interlock.sandbox.file_io import OpenFile
from interlock.tools.files.line_excerpts import LineStart, find_line
from interlock.tools.files.text_format import TextFormat

FORMS = [
    TextFormat(),
    TextFormat("latin-1"),
    TextFormat("utf-16-le", codecs.BOM_UTF16_LE),
    TextFormat("utf-16-be", codecs.BOM_UTF16_BE),
]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(file_io, "CHUNK_BYTES", 6)


@given(st.text("aé\nĊ਀", max_size=30), st.sampled_from(FORMS[2:] + FORMS[:1]), st.integers(1, 12))
@pytest.mark.usefixtures("small_pieces")
def test_a_line_begins_behind_the_line_end_before_it(text, form, number):
    """Also where bytes of a wide character look like a line end."""
    data = form.mark + text.encode(form.encoding)
    descriptor = os.memfd_create("text")
    try:
        os.write(descriptor, data)
        file = OpenFile(descriptor, os.fstat(descriptor))
        found = find_line(file, form, number, lambda: None)
        lines = form.decode(data).split("\n")
        reached = min(number, len(lines))
        assert found.number == reached
        assert found.offset == form.width("\n".join([*lines[: reached - 1], ""]))
        again = find_line(file, form, number, lambda: None, LineStart(found.number, found.offset))
        assert again == found
    finally:
        os.close(descriptor)
