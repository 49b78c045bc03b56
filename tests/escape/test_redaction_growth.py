"""No input makes redaction slow: twice the text takes about twice the time, whole or in pieces."""

import math
import time
from collections.abc import Callable

import pytest

from interlock.redaction.redactor import MARK, Redactor
from interlock.redaction.stream import MAX_HELD
from tests.harness.case_tables import each_row

REDACTOR = Redactor(["a-known-value-of-this-process"])
# Linear would be 2; below a square's 4 with room for a busy machine.
MOST_PER_DOUBLING = 2.6
# What may wait: the limit, an eighth of it that was added since, and the piece that came last.
MOST_HELD = MAX_HELD + MAX_HELD // 8

SHAPES = {
    "assignments without end": "password=",
    "assignments with spaces": "password= ",
    "open quotes": "password='",
    "open values": '"token": "',
    "escaped quotes": 'password=\\"',
    "quotes": "\"'",
    "backslashes": "\\",
    "nested escapes": '\\\\\\"password\\\\\\":\\\\\\"',
    "key blocks": "-----BEGIN PRIVATE KEY-----",
    "key blocks in lines": "-----BEGIN PRIVATE KEY-----",
    "schemes": "a://",
    "users": "a://b:c",
    "web tokens": "eyJ",
    "parts of web tokens": "eyJabcdefgh.ab",
    "dots": ".",
    "flags": "mysql -p",
    "one long line": "a",
    "a long word": "a1B",
    "pipes": "|",
    "table cells": "| token ",
    "base64": "QUJDRGVmZ2hpamts0/+x",
    "lines of base64": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n",
    "NULs": "\0",
    "lone surrogates": "\ud800",
    "Chinese": "密码：",
    "echoes": "echo '",
    "sentences": "the password for x of y is ",
    "elements": "<password>",
    "statements": "password '",
    "typed names": "password: a",
    "users of a network": "net user ",
    "keys": "x_key=",
    "bearers with dots": "bearer a....................1~ ",
    "brackets and stars": 'password="(***********************x" ',
    "marks": MARK,
}

# The rest is tried by `make test-full`, with longer texts.
DAILY_SHAPES = list(SHAPES)[::4]


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def growth_per_doubling(work: Callable[[str], object], shape: str, small: int, doublings: int) -> float:
    """By what the time grows when the text is twice as long: the least of three tries."""

    def text(length: int) -> str:
        return (shape * (length // len(shape) + 1))[:length]

    little, much = text(small), text(small * 2**doublings)
    work(little)
    found = []
    while len(found) < 3 and min(found, default=math.inf) > MOST_PER_DOUBLING:
        # Below a millisecond nothing is measured but noise.
        before = max(seconds(lambda: work(little)), 0.001)
        found.append((seconds(lambda: work(much)) / before) ** (1 / doublings))
    return min(found)


def stream_through(text: str, piece: int) -> int:
    """How much waited at most."""
    stream, most = REDACTOR.stream(), 0
    for start in range(0, len(text), piece):
        stream.feed(text[start : start + piece])
        most = max(most, stream.held)
    stream.finish()
    return most


@each_row("shape", DAILY_SHAPES)
def test_a_hostile_text_takes_linear_time(shape):
    assert growth_per_doubling(REDACTOR.text, SHAPES[shape], 32 * 1024, 3) <= MOST_PER_DOUBLING


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_a_hostile_text_of_a_megabyte_takes_linear_time(shape):
    assert growth_per_doubling(REDACTOR.text, SHAPES[shape], 64 * 1024, 4) <= MOST_PER_DOUBLING


@each_row("shape", DAILY_SHAPES)
def test_a_hostile_stream_takes_linear_time_and_little_memory(shape):
    check_stream(shape, piece=7)


@pytest.mark.full
@pytest.mark.parametrize("piece", [7, 1])
@each_row("shape", SHAPES)
def test_every_hostile_stream_takes_linear_time_and_little_memory(shape, piece):
    check_stream(shape, piece)


def check_stream(shape: str, piece: int) -> None:
    held: list[int] = []

    def work(text: str) -> None:
        held.append(stream_through(text, piece))

    assert growth_per_doubling(work, SHAPES[shape], 2048 * piece, 2) <= MOST_PER_DOUBLING
    assert max(held) <= MOST_HELD


@pytest.mark.full
@pytest.mark.parametrize(
    ("opening", "line", "closing"),
    [
        (
            "-----BEGIN PRIVATE KEY-----",
            "QkZnPHyVIZcPZ4Ohf6tWu0Yv2MnDUBNZ0YYIxNYd20DowTcfKDA7viIUjFSX8rsA\n",
            "-----END",
        ),
        ('{"password": "', "k3jd92mzxQ81-", '"}'),
    ],
)
def test_a_secret_of_ten_megabytes_passes_through_as_one_mark(opening, line, closing):
    stream, shown, most = REDACTOR.stream(), [], 0
    block = line * (32 * 1024 // len(line))
    shown.append(stream.feed(f"before\n{opening}"))
    for _ in range(10 * 1024 * 1024 // len(block)):
        shown.append(stream.feed(block))
        most = max(most, stream.held)
    shown += [stream.feed(f"{closing}\nafter\n"), stream.finish()]
    assert most <= MOST_HELD + len(block)
    text = "".join(shown)
    assert line.strip() not in text
    assert text == f"before\n{opening}{MARK}{closing}\nafter\n"


def test_a_long_line_that_is_no_secret_leaves_before_it_ends():
    stream, shown = REDACTOR.stream(), 0
    for _ in range(512):
        shown += len(stream.feed("a" * 1024))
        assert stream.held <= MOST_HELD
    assert shown >= 512 * 1024 - MOST_HELD
    assert shown + len(stream.finish()) == 512 * 1024


@pytest.mark.parametrize("place", range(7000, 9000, 250))
def test_a_long_secret_is_found_wherever_it_begins_in_a_long_text(place):
    secret = "aB3dE9" * 500
    text = f"{'x ' * (place // 2)}<privateKey>{secret}</privateKey>{' y' * 3000}"
    assert secret[:60] not in REDACTOR.text(text)
