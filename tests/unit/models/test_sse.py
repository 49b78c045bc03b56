"""Server-sent events, in whatever pieces the network makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.models.sse import SseEventTooLong, SseReader
from tests.harness.case_tables import each_row


def read(*pieces: bytes) -> list[bytes]:
    reader = SseReader()
    events = [data for piece in pieces for data in reader.feed(piece)]
    return events + reader.finish()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@each_row(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b": alive\n\ndata: a\n\n: alive\n\n", [b"a"]),
        (b"event: message\nid: 7\nretry: 3\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b"data: a\n", [b"a"]),
        (b"data\n\n", []),
        (b"data:\n\n", [b""]),
        (b"database: x\n\n", []),
        (b"", []),
    ],
)
def test_a_stream_is_read_as_its_events(stream, events):
    assert read(stream) == events
    assert read(*(bytes([byte]) for byte in stream)) == events


LINES = st.lists(
    st.one_of(
        st.binary(max_size=12).map(lambda data: b"data: " + data.replace(b"\n", b"")),
        st.sampled_from([b"", b"", b": alive", b"event: x", b"data:", b"data", b"\xef\xbb\xbf", b"\r"]),
    ),
    max_size=12,
)


@given(lines=LINES, ending=st.sampled_from([b"\n", b"\r\n"]), places=st.lists(st.integers(0, 500)))
def test_bytes_cut_anywhere_give_the_same_events(lines, ending, places):
    stream = ending.join(lines)
    assert read(*cut(stream, places)) == read(stream)


@given(stream=st.binary(max_size=200), places=st.lists(st.integers(0, 200)))
def test_garbage_cut_anywhere_gives_the_same_events(stream, places):
    assert read(*cut(stream, places)) == read(stream)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * 100],
        [b"x" * 10] * 10,
        [b"data: x" * 2 + b"\n"] * 20,
        [b"data: a\n\ndata: " + b"x" * 100],
    ],
)
def test_an_event_without_end_is_given_up(pieces):
    reader = SseReader(max_event_bytes=64)
    with pytest.raises(SseEventTooLong):
        for piece in pieces:
            reader.feed(piece)


def test_many_events_together_may_be_longer_than_one_may_be():
    reader = SseReader(max_event_bytes=64)
    assert len(reader.feed(b"data: 12345678\n\n" * 100)) == 100


def test_a_long_event_in_many_pieces_costs_no_more_than_its_bytes():
    """Joined again with each piece, these would be four gigabytes of copying."""
    reader = SseReader()
    for _ in range(40_000):
        assert reader.feed(b"x" * 200) == []
    assert reader.feed(b"\ndata: a\n\n") == [b"a"]
