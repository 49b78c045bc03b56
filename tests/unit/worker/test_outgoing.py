"""What waits to be said: put together where it can be, and never without bound."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.worker import outgoing
from interlock.worker.outgoing import Outgoing
from interlock.worker.wire import Grown, Piece, Ring, Silence


def said(signals) -> list:
    async def run():
        waiting: Outgoing[str] = Outgoing()
        for signal in signals:
            waiting.put(signal)
        async with asyncio.timeout(1):
            return (await waiting.next())[0]

    return asyncio.run(run())


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=20))
def test_pieces_that_follow_one_another_become_one(texts):
    offset, pieces = 0, []
    for text in texts:
        pieces.append(Piece("s", "t", 1, offset, text))
        offset += len(text)
    assert said(pieces) == [Piece("s", "t", 1, 0, "".join(texts))]


@pytest.mark.parametrize(
    "after",
    [
        Piece("s", "t", 1, 4, "x"),
        Piece("s", "t", 1, 0, "x"),
        Piece("s", "t", 2, 3, "x"),
        Piece("s", "u", 1, 3, "x"),
    ],
)
def test_what_does_not_follow_stays_by_itself(after):
    before = Piece("s", "t", 1, 0, "abc")
    assert said([before, after]) == [before, after]


def test_an_end_is_said_after_what_it_ends_and_before_what_comes_next():
    first, end, then = Piece("s", "t", 1, 0, "a"), Silence("s", "t"), Piece("s", "t", 2, 0, "b")
    assert said([first, end, then, Piece("s", "t", 2, 1, "c")]) == [first, end, Piece("s", "t", 2, 0, "bc")]


def test_the_same_said_twice_is_said_once():
    assert said([Ring("s"), Grown("s"), Ring("s"), Grown("s"), Ring("u")]) == [
        Ring("s"),
        Grown("s"),
        Ring("u"),
    ]


def test_a_long_piece_is_cut(monkeypatch):
    monkeypatch.setattr(outgoing, "MAX_PIECE_CHARS", 4)
    parts = said(
        [Piece("s", "t", 1, 10, "abcdefghij"), Piece("s", "t", 1, 20, "kl"), Piece("s", "t", 1, 22, "m")]
    )
    assert [(part.offset, part.text) for part in parts] == [
        (10, "abcd"),
        (14, "efgh"),
        (18, "ijkl"),
        (22, "m"),
    ]


def test_an_empty_piece_is_kept():
    assert said([Piece("s", "t", 1, 0, "")]) == [Piece("s", "t", 1, 0, "")]


def test_when_too_much_waits_the_oldest_is_dropped(monkeypatch):
    monkeypatch.setattr(outgoing, "MAX_WAITING", 3)
    assert said([Ring(f"s{number}") for number in range(5)]) == [Ring("s2"), Ring("s3"), Ring("s4")]


async def test_what_was_given_away_does_not_come_again_and_things_are_let_go():
    waiting: Outgoing[str] = Outgoing()
    waiting.put(Piece("s", "t", 1, 0, "a"))
    waiting.let_go("subscription")
    assert await waiting.next() == ([Piece("s", "t", 1, 0, "a")], ["subscription"])
    assert waiting.is_busy
    waiting.put(Ring("s"))
    assert await waiting.next() == ([Ring("s")], [])
    assert not waiting.is_busy
