"""The store is away for a moment: what was to be shown or told then comes when it is back."""

import pytest

from interlock.channels.telegram import store
from interlock.channels.telegram.store import TelegramStore
from interlock.core.errors import StoreUnavailable
from tests.harness.telegram import ADA, script

QUESTION = {"type": "confirmation", "message": "Go on?"}
ASKING = {"tool_calls": [{"name": "ask_user", "arguments": QUESTION}]}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(store, "AGAIN_SECONDS", 0.05)


def fail_twice(monkeypatch, method):
    """The first two times that it is to be stored, the store is away."""
    real, left = getattr(TelegramStore, method), [2]

    async def failing(self, *arguments):
        if left[0]:
            left[0] -= 1
            raise StoreUnavailable("the store is away")
        return await real(self, *arguments)

    monkeypatch.setattr(TelegramStore, method, failing)
    return left


async def test_a_question_is_put_when_it_can_be_stored(open_harness, telegram, monkeypatch):
    left = fail_twice(monkeypatch, "ask")
    harness = await open_harness(MODEL=script(ASKING, "msg:Thank you."))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Go on?")
    await telegram.press(ADA, shown.message_id, "Yes")
    await telegram.until_shown(ADA, "Thank you.")
    await harness.delivered()
    assert left == [0], "the store was never away"
    assert len(await harness.chat_events("ask_user.answered")) == 1


async def test_an_answer_is_recorded_as_sent_when_it_can_be_stored(open_harness, telegram, monkeypatch):
    fail_twice(monkeypatch, "end")
    harness = await open_harness(MODEL=script("msg:one", "msg:two"))
    await harness.chat("a", "one")
    await harness.delivered()
    await harness.chat("b", "two")
    await harness.delivered(2)
    assert telegram.texts(ADA) == ["one", "two"]
    assert [each["message_ids"] for each in await harness.chat_events("reply.sent")] == [
        [message.message_id] for message in telegram.shown(ADA)
    ]


async def test_a_reply_is_an_answer_though_its_prompt_was_noted_late(open_harness, telegram, monkeypatch):
    fail_twice(monkeypatch, "note_shown")
    question = {"type": "feedback", "message": "How was it?", "comment": "required"}
    asking = {"tool_calls": [{"name": "ask_user", "arguments": question}]}
    harness = await open_harness(MODEL=script(asking, "msg:Thank you."))
    await telegram.say(ADA, "go")
    prompt = await telegram.until_shown(ADA, "Your comment?")
    await telegram.reply(ADA, prompt.message_id, "fine")
    await telegram.until_shown(ADA, "Thank you.")
    await harness.delivered()
    assert [each["answer"] for each in await harness.chat_events("ask_user.answered")] == [
        {"comment": "fine"}
    ]
