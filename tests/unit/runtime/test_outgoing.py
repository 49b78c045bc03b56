"""What waits to be said: put together where it can be, and never without bound."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.runtime import send_buffer
from interlock.runtime.bus import LogAppended, TextAppended, TextPart, WorkAvailable
from interlock.runtime.send_buffer import SendBuffer


def said(signals) -> list:
    async def run():
        waiting: SendBuffer[str] = SendBuffer()
        for signal in signals:
            waiting.put(signal)
        async with asyncio.timeout(1):
            return (await waiting.next())[0]

    return asyncio.run(run())


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=20))
def test_pieces_that_follow_one_another_become_one(texts):
    offset, pieces = 0, []
    for text in texts:
        pieces.append(TextAppended("s", "t", 1, offset, text))
        offset += len(text)
    assert said(pieces) == [TextAppended("s", "t", 1, 0, "".join(texts))]


@pytest.mark.parametrize(
    "after",
    [
        TextAppended("s", "t", 1, 4, "x"),
        TextAppended("s", "t", 1, 0, "x"),
        TextAppended("s", "t", 2, 3, "x"),
        TextAppended("s", "u", 1, 3, "x"),
        TextAppended("s", "t", 1, 3, "x", TextPart.reasoning),
    ],
)
def test_what_does_not_follow_stays_by_itself(after):
    before = TextAppended("s", "t", 1, 0, "abc")
    assert said([before, after]) == [before, after]


def test_the_same_said_twice_is_said_once():
    assert said(
        [WorkAvailable("s"), LogAppended("s"), WorkAvailable("s"), LogAppended("s"), WorkAvailable("u")]
    ) == [
        WorkAvailable("s"),
        LogAppended("s"),
        WorkAvailable("u"),
    ]


def test_a_long_piece_is_cut(monkeypatch):
    monkeypatch.setattr(send_buffer, "MAX_PIECE_CHARS", 4)
    parts = said(
        [
            TextAppended("s", "t", 1, 10, "abcdefghij"),
            TextAppended("s", "t", 1, 20, "kl"),
            TextAppended("s", "t", 1, 22, "m"),
        ]
    )
    assert [(part.offset, part.text) for part in parts] == [
        (10, "abcd"),
        (14, "efgh"),
        (18, "ijkl"),
        (22, "m"),
    ]


def test_an_empty_piece_is_kept():
    assert said([TextAppended("s", "t", 1, 0, "")]) == [TextAppended("s", "t", 1, 0, "")]


def test_when_too_much_waits_the_oldest_is_dropped(monkeypatch):
    monkeypatch.setattr(send_buffer, "MAX_WAITING", 3)
    assert said([WorkAvailable(f"s{number}") for number in range(5)]) == [
        WorkAvailable("s2"),
        WorkAvailable("s3"),
        WorkAvailable("s4"),
    ]


async def test_what_was_given_away_does_not_come_again_and_things_are_let_go():
    waiting: SendBuffer[str] = SendBuffer()
    waiting.put(TextAppended("s", "t", 1, 0, "a"))
    waiting.let_go("subscription")
    assert await waiting.next() == ([TextAppended("s", "t", 1, 0, "a")], ["subscription"])
    assert waiting.is_busy
    waiting.put(WorkAvailable("s"))
    assert await waiting.next() == ([WorkAvailable("s")], [])
    assert not waiting.is_busy
