"""What comes from Telegram and from other processes: in our own words, or passed over; nothing stops."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from telegram import Update
from telegram.error import TelegramError

from interlock.channels.telegram.bot_api import _GetUpdatesRequest, _wait_in
from interlock.channels.telegram.updates import BotIdentity, IncomingMessage, ParsedUpdate, read_update
from interlock.feed.follow import SessionFeed
from interlock.runtime.bus import (
    Bus,
    CancelRequested,
    LogAppended,
    ResyncRequested,
    SessionChanged,
    TextAppended,
    TextPart,
    WorkAvailable,
    decode_message,
    encode_message,
)
from interlock.runtime.live_stream import LiveStream
from tests.fuzz.odd import ANYTHING, WORDS, Raw, spoiled, torn, written

BOT = BotIdentity(42, "interlock_bot")
USER = {"id": 7, "is_bot": False, "first_name": "Ann"}
CHAT = {"id": -100, "type": "group", "title": "us"}
MESSAGE = {
    "message_id": 5,
    "date": 1_800_000_000,
    "chat": CHAT,
    "from": USER,
    "text": "@interlock_bot /new \U0001f600 hello",
    "entities": [{"type": "mention", "offset": 0, "length": 14}],
    "reply_to_message": {"message_id": 4, "date": 1, "chat": CHAT, "from": {**USER, "id": 42}, "text": "?"},
    "media_group_id": "1",
}
PRESS = {"id": "9", "from": USER, "message": MESSAGE, "chat_instance": "1", "data": "a:1"}
UPDATES = [
    {"update_id": 1, "message": MESSAGE},
    {"update_id": 2, "message": {**MESSAGE, "chat": {"id": 7, "type": "private"}, "text": "/why x"}},
    {"update_id": 3, "callback_query": PRESS},
]
LAST = {
    "update_id": 9,
    "message": {
        "message_id": 6,
        "date": 1,
        "chat": {"id": 7, "type": "private"},
        "from": USER,
        "text": "last",
    },
}


def arrived(payload: bytes) -> list[ParsedUpdate] | None:
    """As the poller takes it; None where the answer as a whole is none, and Telegram is asked again."""
    try:
        answer = _GetUpdatesRequest.parse_json_payload(payload)
    except TelegramError:
        return None
    found = []
    for update in Update.de_list(answer.get("result") or [], None):
        assert type(update.update_id) is int
        assert update.update_id + 1
        try:
            found.append(read_update(update, BOT))
        except Exception:  # noqa: BLE001 - the poller passes over one that cannot be read, and tells so
            found.append(ParsedUpdate(update.update_id))
    return found


def _storable(incoming: IncomingMessage) -> None:
    assert IncomingMessage.from_json(incoming.as_json()) == incoming
    for number in (
        incoming.update_id,
        incoming.chat_id,
        incoming.user_id,
        incoming.message_id,
        incoming.sent_s,
    ):
        assert type(number) is int
        assert abs(number) < 2**62
    for text in (incoming.text, incoming.command, incoming.press_id, incoming.album):
        assert "\x00" not in text


@given(updates=spoiled(UPDATES))
@example([{"message": MESSAGE}])
@example([7, None, "x", []])
@example([{"update_id": "x"}, {"update_id": 2**70}, {"update_id": True}, {"update_id": 1.5}])
@example([{"update_id": 1, "message": {**MESSAGE, "text": Raw('"\\ud800"')}}])
@example([{"update_id": 1, "message": {**MESSAGE, "chat": {"id": "7", "type": "private"}}}])
@example([{"update_id": 1, "message": {**MESSAGE, "message_id": 2**80}}])
def test_any_update_is_read_or_passed_over_and_the_next_one_comes(updates):
    if not isinstance(updates, list):
        updates = [updates]
    if any(isinstance(each, Raw) for each in updates):
        updates = [each for each in updates if not isinstance(each, Raw)]
    found = arrived(written({"ok": True, "result": [*updates, LAST]}))
    if found is None:
        # What is no JSON at all is nobody's update.
        with pytest.raises((ValueError, RecursionError)):
            json.loads(written(updates))
        return
    assert found[-1].incoming is not None
    assert found[-1].incoming.text == "last"
    for each in found:
        if each.incoming is not None:
            _storable(each.incoming)


@given(
    payload=st.one_of(
        torn(written({"ok": True, "result": UPDATES})), ANYTHING.map(written), st.binary(max_size=40)
    )
)
@example(b"[]")
@example(b'{"result": {}}')
@example(b'{"result": 7}')
def test_any_answer_of_telegram_is_one_or_asked_for_again(payload):
    arrived(payload)


def test_an_answer_that_is_nested_deeply_is_asked_for_again():
    """Without Hypothesis, which lets a test go deeper than a program may."""
    deep = b'{"ok": true, "result": ' + b"[" * 100_000
    assert arrived(deep) is None


@given(
    payload=st.one_of(
        spoiled({"ok": False, "parameters": {"retry_after": 3}}).map(written), st.binary(max_size=20)
    )
)
@example(b'{"parameters": {"retry_after": 1e300}}')
@example(b'{"parameters": {"retry_after": "inf"}}')
@example(b'{"parameters": {"retry_after": "nan"}}')
def test_a_flood_wait_has_an_end(payload):
    assert 1 <= _wait_in(payload) <= 86_400


# -- other processes --

SIGNALS = (
    WorkAvailable("s"),
    CancelRequested("s"),
    TextAppended("s", "t_1", 1, 0, "Hi"),
    TextAppended("s", "t_1", 1, 0, "Hm", TextPart.reasoning, 7),
    ResyncRequested("s"),
    LogAppended("s"),
    SessionChanged("s", 1),
)


LINES = st.one_of(
    st.sampled_from([orjson.loads(encode_message(signal)) for signal in SIGNALS])
    .flatmap(spoiled)
    .map(written),
    st.sampled_from([encode_message(signal) for signal in SIGNALS]).flatmap(torn),
    st.sampled_from(WORDS).map(lambda word: written([word])),
    st.binary(max_size=30),
)


@given(lines=st.lists(LINES, max_size=6))
def test_any_line_of_another_process_is_a_signal_or_nothing(lines):
    bus = Bus()
    feed: SessionFeed[Any] = SessionFeed(
        "s",
        None,  # type: ignore[arg-type] - nothing is read
        bus,
        LiveStream(bus),
        lambda _session_id, item: item,
    )
    for line in [*lines, encode_message(TextAppended("s", "t_2", 1, 0, "whole"))]:
        message = decode_message(line)
        if message is not None:
            assert decode_message(encode_message(message)) == message
            if isinstance(message, TextAppended) and message.session_id == "s":
                feed._on_text(message)
    assert "".join(feed._texts[TextPart.answer].pieces) == "whole"
