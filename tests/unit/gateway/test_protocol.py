"""The page that tells the protocol and the code that speaks it say the same."""

import re
from pathlib import Path

import orjson
import pytest
from websockets.frames import Frame as LibraryFrame
from websockets.frames import Opcode

from interlock.feed.entries import TaskEndCode
from interlock.feed.frames import FEED_ITEM_DATA_TYPES, FeedItemType
from interlock.gateway.methods import ALL
from interlock.gateway.protocol import (
    RESPONSE,
    SESSION_CHANGED,
    CloseReason,
    Frame,
    GatewayErrorCode,
    RequestError,
    make_frame,
    parse_request,
)
from tests.harness.case_tables import each_row

PAGE = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    part = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([A-Za-z_.]+\??)`", cell)


def test_every_method_is_told_with_what_it_takes():
    told = {names(row[0])[0]: set(names(row[1])) for row in rows("Methods")}
    real = {
        name: {
            field if about.is_required() else f"{field}?"
            for field, about in method.params.model_fields.items()
        }
        for name, method in ALL.items()
    }
    assert told == real


def test_every_type_of_frame_is_told():
    assert [names(row[0])[0] for row in rows("Frames")] != []
    assert {names(row[0])[0] for row in rows("Frames")} == {*FeedItemType, RESPONSE, SESSION_CHANGED}


@pytest.mark.parametrize("kind", list(FEED_ITEM_DATA_TYPES))
def test_what_a_frame_carries_is_told(kind):
    told = next(row[1] for row in rows("Frames") if names(row[0]) == [kind.value])
    assert set(FEED_ITEM_DATA_TYPES[kind].__annotations__) <= set(names(" ".join([told, last_cell(kind)])))


def last_cell(kind: FeedItemType) -> str:
    return next(row[2] for row in rows("Frames") if names(row[0]) == [kind.value])


def test_every_type_but_the_answers_has_its_data():
    assert set(FEED_ITEM_DATA_TYPES) == set(FeedItemType)


def test_every_code_is_told():
    told = {name for row in rows("Errors") for name in names(row[0])}
    assert {*GatewayErrorCode, *TaskEndCode} <= told


def test_every_way_to_be_closed_is_told():
    assert all(close.value in PAGE for close in CloseReason if close is not CloseReason.stopping)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", GatewayErrorCode.PARSE_ERROR),
        ("{", GatewayErrorCode.PARSE_ERROR),
        ("[]", GatewayErrorCode.PARSE_ERROR),
        ("null", GatewayErrorCode.PARSE_ERROR),
        (b"\xff\xfe", GatewayErrorCode.PARSE_ERROR),
        ('{"type": "request"}', GatewayErrorCode.PARSE_ERROR),
        ('{"type": "request", "id": 1, "method": 5}', GatewayErrorCode.PARSE_ERROR),
        ('{"type": "response", "id": 1, "method": "x"}', GatewayErrorCode.PARSE_ERROR),
        ('{"type": "request", "id": true, "method": "x"}', GatewayErrorCode.PARSE_ERROR),
        ('{"type": "request", "id": [1], "method": "x"}', GatewayErrorCode.PARSE_ERROR),
        ('{"type": "request", "id": 1, "method": "x", "params": []}', GatewayErrorCode.INVALID_PARAMS),
    ],
)
def test_what_is_no_request_is_refused(text, code):
    with pytest.raises(RequestError) as caught:
        parse_request(text)
    assert caught.value.code is code


def test_an_id_that_can_be_read_is_echoed():
    with pytest.raises(RequestError) as caught:
        parse_request('{"type": "request", "id": "a", "method": null}')
    assert caught.value.request_id == "a"


@each_row("size", [0, 20, 30, 60, 100, 125, 126, 127, 1000, 65_000, 65_536, 70_000, 200_000])
def test_a_frame_for_the_wire_is_what_a_library_would_send(size):
    """RFC 6455 has three ways to tell a frame's length."""
    frame = make_frame(FeedItemType.event, {"文": "x" * size})
    assert frame.wire == LibraryFrame(Opcode.TEXT, frame.plain.encode()).serialize(mask=False)
    assert frame.wire is frame.wire


@pytest.mark.parametrize("identity", [None, "a", 7, 'quote"and\\', "文"])
def test_a_frame_is_encoded_once_and_carries_any_id(identity):
    frame = make_frame(FeedItemType.event, {"kind": "x", "text": '"}'}, session_id="s", seq=3, task_id="t")
    assert isinstance(frame, Frame)
    assert orjson.loads(frame.with_id(identity)) == {
        "id": identity,
        "type": "event",
        "session_id": "s",
        "seq": 3,
        "task_id": "t",
        "data": {"kind": "x", "text": '"}'},
    }
