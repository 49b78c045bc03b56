"""What a model is given of a session: always valid, within a budget, the same after a restart."""

import json

from hypothesis import given
from hypothesis import strategies as st

from interlock.agent.conversation import Conversation
from interlock.session.models import Message, Role


def said(seq: int, role: Role, content: str = "", *calls: str, answers: str | None = None) -> Message:
    requested = [{"id": call, "name": "read_file", "arguments": "{}"} for call in calls]
    return Message(seq, role, content, 0, requested or None, answers)


def exchange(start: int, length: int = 300) -> list[Message]:
    return [
        said(start, Role.user, f"question {start} " + "x" * length),
        said(start + 1, Role.assistant, "", f"c{start}"),
        said(start + 2, Role.tool, "y" * length, answers=f"c{start}"),
        said(start + 3, Role.assistant, f"answer {start}"),
    ]


def decoded(conversation: Conversation) -> list[dict]:
    return [json.loads(message) for message in conversation.encoded()]


def assert_valid(messages: list[dict]) -> None:
    """As a provider checks it: each call is answered exactly once, right behind the message that asks."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
            continue
        assert waiting == []
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []


def test_messages_keep_their_order_and_form():
    messages = decoded(Conversation(exchange(1)))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1]["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "read_file", "arguments": "{}"},
    }
    assert messages[2]["tool_call_id"] == "c1"


def test_calls_without_an_answer_are_known():
    conversation = Conversation([said(1, Role.user, "go"), said(2, Role.assistant, "", "a", "b")])
    assert [call.call_id for call in conversation.unanswered] == ["a", "b"]
    conversation.add(said(3, Role.tool, "done", answers="a"))
    assert [call.call_id for call in conversation.unanswered] == ["b"]


def test_an_answer_to_nothing_is_left_out():
    conversation = Conversation([said(1, Role.user, "go"), said(2, Role.tool, "?", answers="nobody")])
    assert [message["role"] for message in decoded(conversation)] == ["user"]


def test_what_is_over_the_budget_is_told_in_short_and_the_newest_stays():
    conversation = Conversation([message for start in (1, 5, 9, 13) for message in exchange(start)])
    before = conversation.tokens
    compaction = conversation.compact(before // 2)
    assert compaction is not None
    assert compaction.tokens_before == before
    assert compaction.tokens_after == conversation.tokens < before
    messages = decoded(conversation)
    assert_valid(messages)
    assert "person: question 1 " in messages[0]["content"]
    assert "you called read_file" in messages[0]["content"]
    assert messages[-1]["content"] == "answer 13"
    assert any(
        message["content"].startswith("question 13 ") for message in messages[1:] if message["content"]
    )


def test_nothing_is_told_in_short_within_the_budget_or_while_a_call_is_open():
    conversation = Conversation(exchange(1))
    assert conversation.compact(conversation.tokens) is None
    conversation.add(said(9, Role.user, "go"))
    conversation.add(said(10, Role.assistant, "", "open"))
    assert conversation.compact(1) is None


def test_a_restart_gives_the_same_messages():
    messages = [message for start in range(1, 60, 4) for message in exchange(start)]
    first = Conversation(messages[:40])
    once = first.compact(first.tokens // 2)
    for message in messages[40:]:
        first.add(message)
    again = first.compact(first.tokens // 2)
    assert once is not None
    assert again is not None
    second = Conversation(messages)
    second.compact_through(again.through_seq)
    assert second.encoded() == first.encoded()
    assert second.tokens == first.tokens


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(1, 4000))
def test_whatever_is_cut_the_rest_is_valid(lengths, budget):
    messages = [
        message for index, length in enumerate(lengths) for message in exchange(1 + 4 * index, length)
    ]
    conversation = Conversation(messages)
    compaction = conversation.compact(budget)
    assert_valid(decoded(conversation))
    assert decoded(conversation)[-1]["content"] == f"answer {1 + 4 * (len(lengths) - 1)}"
    if compaction is not None:
        assert compaction.tokens_after == conversation.tokens
