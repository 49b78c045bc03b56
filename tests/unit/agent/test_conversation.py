"""What a model is given of a session: always valid, within a budget, the same after a restart."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from interlock.agent.context import _REQUEST as REQUEST
from interlock.agent.context import ModelContext, estimate_tokens
from interlock.models.message_encoding import encode_message
from interlock.models.provider import AssistantMessage, Reasoning, UserMessage
from interlock.sessions.models import Message, Role


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


def decoded(conversation: ModelContext) -> list[dict]:
    return [json.loads(encode_message(message)) for message in conversation.messages()]


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
    messages = decoded(ModelContext(exchange(1)))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1]["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "read_file", "arguments": "{}"},
    }
    assert messages[2]["tool_call_id"] == "c1"


def test_calls_without_an_answer_are_known():
    conversation = ModelContext([said(1, Role.user, "go"), said(2, Role.assistant, "", "a", "b")])
    assert [call.call_id for call in conversation.unanswered] == ["a", "b"]
    conversation.add(said(3, Role.tool, "done", answers="a"))
    assert [call.call_id for call in conversation.unanswered] == ["b"]


def test_an_answer_to_nothing_is_left_out():
    conversation = ModelContext([said(1, Role.user, "go"), said(2, Role.tool, "?", answers="nobody")])
    assert [message["role"] for message in decoded(conversation)] == ["user"]


def test_what_is_over_the_budget_is_told_in_short_and_the_newest_stays():
    said_so_far = [message for start in range(1, 60, 4) for message in exchange(start)]
    before = ModelContext(said_so_far).tokens
    conversation = ModelContext(said_so_far, budget=before // 2)
    compaction = conversation.compact()
    assert compaction is not None
    assert compaction.tokens_before == before
    assert compaction.tokens_after == conversation.tokens < before
    messages = decoded(conversation)
    assert_valid(messages)
    assert "person: question 1 " in messages[0]["content"]
    assert "you called read_file" in messages[0]["content"]
    assert messages[-1]["content"] == "answer 57"
    assert any(
        message["content"].startswith("question 57 ") for message in messages[1:] if message["content"]
    )


def test_nothing_is_told_in_short_within_the_budget_or_while_a_call_is_open():
    conversation = ModelContext(exchange(1), budget=ModelContext(exchange(1)).tokens)
    assert conversation.compact() is None
    conversation.add(said(9, Role.user, "go" * 1000))
    conversation.add(said(10, Role.assistant, "", "open"))
    assert conversation.compact() is None
    conversation.add(said(11, Role.tool, "{}", answers="open"))
    assert conversation.compact() is not None


def test_in_a_long_task_the_request_is_told_word_for_word_and_its_steps_in_short():
    conversation = ModelContext([said(1, Role.user, "Sum up every file, and mind the dates.")], budget=1000)
    compacted = []
    for step in range(40):
        conversation.add(said(2 + 2 * step, Role.assistant, "", f"c{step}"))
        conversation.add(said(3 + 2 * step, Role.tool, "x" * 300, answers=f"c{step}"))
        compacted.append(conversation.compact())
    assert any(compacted)
    messages = decoded(conversation)
    assert_valid(messages)
    assert messages[0]["content"].endswith(f"{REQUEST}\nSum up every file, and mind the dates.")
    assert "you called read_file" in messages[0]["content"]
    assert conversation.tokens <= 1000
    conversation.add(said(100, Role.user, "And now something else."))
    for step in range(40, 80):
        conversation.add(said(102 + 2 * step, Role.assistant, "", f"c{step}"))
        conversation.add(said(103 + 2 * step, Role.tool, "x" * 300, answers=f"c{step}"))
        conversation.compact()
    assert decoded(conversation)[0]["content"].endswith(f"{REQUEST}\nAnd now something else.")


def test_of_a_turn_that_is_too_long_by_itself_the_oldest_results_are_cut():
    calls = [f"c{number}" for number in range(20)]
    conversation = ModelContext(
        [said(1, Role.user, "read them all"), said(2, Role.assistant, "", *calls)], budget=10_000
    )
    for number, call in enumerate(calls):
        conversation.add(said(3 + number, Role.tool, "x" * 3000, answers=call))
    before = conversation.tokens
    compaction = conversation.compact()
    assert compaction is not None
    assert (compaction.tokens_before, compaction.tokens_after) == (before, conversation.tokens)
    assert conversation.tokens <= 10_000 < before
    messages = decoded(conversation)
    assert_valid(messages)
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert len(results) == 20
    assert "3000 characters; truncated because" in results[0]
    assert results[-1] == "x" * 3000
    assert conversation.compact() is None


def test_what_other_things_take_is_left_for_them():
    said_so_far = [message for start in (1, 5, 9, 13) for message in exchange(start)]
    needed = ModelContext(said_so_far).tokens
    assert ModelContext(said_so_far, budget=needed + 100).compact(100) is None
    assert ModelContext(said_so_far, budget=needed + 100).compact(101) is not None


def test_a_call_that_nobody_answered_is_closed_before_the_next_word():
    messages = [
        said(1, Role.user, "go"),
        said(2, Role.assistant, "", "a", "b"),
        said(3, Role.tool, "{}", answers="a"),
        said(4, Role.user, "never mind"),
    ]
    conversation = ModelContext(messages)
    told = decoded(conversation)
    assert_valid(told)
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool", "user"]
    assert "was not run" in told[3]["content"]
    assert conversation.unanswered == ()


def test_a_request_that_was_never_answered_is_told_as_given_up():
    """Cancelled, say: the next task must not do what the person has just stopped."""
    conversation = ModelContext([said(1, Role.user, "delete everything"), said(2, Role.user, "hello")])
    given_up, present = [message["content"] for message in decoded(conversation)]
    assert given_up.startswith("delete everything\n\n(This request was cancelled or failed")
    assert present == "hello"
    assert conversation.tokens == sum(estimate_tokens(each) for each in conversation.messages())


def test_so_is_one_that_was_given_up_in_the_middle_and_no_other():
    conversation = ModelContext(
        [
            said(1, Role.user, "first"),
            said(2, Role.assistant, "answered"),
            said(3, Role.user, "second"),
            said(4, Role.assistant, "", "c1"),
            said(5, Role.tool, "{}", answers="c1"),
            said(6, Role.user, "third"),
        ]
    )
    told = [message["content"] for message in decoded(conversation) if message["role"] == "user"]
    assert ["(This request was" in words for words in told] == [False, True, False]


THOUGHT = Reasoning("I had better look. " * 20, "thinker")


def thought(seq: int, *calls: str) -> Message:
    return replace(said(seq, Role.assistant, "", *calls), reasoning=THOUGHT)


def reasonings(conversation: ModelContext) -> list[Reasoning | None]:
    messages = conversation.messages()
    return [message.reasoning for message in messages if isinstance(message, AssistantMessage)]


def test_a_model_has_its_reasoning_until_the_next_request():
    conversation = ModelContext(
        [
            said(1, Role.user, "go"),
            thought(2, "c1"),
            said(3, Role.tool, "{}", answers="c1"),
            thought(4, "c2"),
            said(5, Role.tool, "{}", answers="c2"),
        ]
    )
    assert reasonings(conversation) == [THOUGHT, THOUGHT]
    with_it = conversation.tokens
    # An answer ends the task: what led to it is needed no more.
    conversation.add(thought(6))
    assert reasonings(conversation) == [THOUGHT, THOUGHT, None]
    conversation.add(said(7, Role.user, "and now this"))
    assert reasonings(conversation) == [None, None, None]
    assert conversation.tokens < with_it
    assert conversation.tokens == sum(map(estimate_tokens, conversation.messages()))


def test_reasoning_that_was_cut_off_with_its_turn_is_forgotten_once():
    conversation = ModelContext([said(1, Role.user, "go")], budget=400)
    for step in range(6):
        conversation.add(thought(2 + 2 * step, f"c{step}"))
        conversation.add(said(3 + 2 * step, Role.tool, "x" * 200, answers=f"c{step}"))
    assert conversation.compact() is not None
    assert 0 < len(reasonings(conversation)) < 6
    conversation.add(said(20, Role.user, "stop"))
    assert set(reasonings(conversation)) == {None}
    assert conversation.tokens == sum(map(estimate_tokens, conversation.messages()))


def test_a_message_that_does_not_change_is_the_same_object_in_every_turn():
    """Providers keep its encoding with it."""
    conversation = ModelContext(exchange(1))
    before = conversation.messages()
    conversation.add(said(9, Role.user, "next"))
    assert all(new is old for new, old in zip(conversation.messages(), before, strict=False))


def test_a_restart_gives_the_same_messages():
    messages = [message for start in range(1, 60, 4) for message in exchange(start)]
    budget = ModelContext(messages[:40]).tokens // 2
    first = ModelContext(messages[:40], budget=budget)
    once = first.compact()
    for message in messages[40:]:
        first.add(message)
    again = first.compact()
    assert once is not None
    assert again is not None
    second = ModelContext(messages, budget=budget)
    second.compact_through(again.through_seq)
    assert second.messages() == first.messages()
    assert second.tokens == first.tokens


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(1, 4000))
def test_whatever_is_cut_the_rest_is_valid(lengths, budget):
    messages = [
        message for index, length in enumerate(lengths) for message in exchange(1 + 4 * index, length)
    ]
    conversation = ModelContext(messages, budget=budget)
    compaction = conversation.compact()
    assert_valid(decoded(conversation))
    assert decoded(conversation)[-1]["content"] == f"answer {1 + 4 * (len(lengths) - 1)}"
    if compaction is not None:
        assert compaction.tokens_after == conversation.tokens


# -- steering --


def steering(seq: int, text: str) -> Message:
    return Message(seq, Role.user, text, 0, taken_seq=seq)


def test_a_message_that_steers_continues_the_request_before_it():
    call = [{"id": "c1", "name": "bash", "arguments": "{}"}]
    reasoning = Reasoning("I had better look.", "openai:m")
    context = ModelContext(
        [
            Message(1, Role.user, "tidy up", 0),
            Message(2, Role.assistant, "", 0, call, None, reasoning),
            Message(3, Role.tool, "done", 0, None, "c1"),
            steering(4, "but not the garden"),
        ]
    )
    first, said, _, last = context.messages()
    assert (first, last) == (UserMessage("tidy up"), UserMessage("but not the garden"))
    # The model goes on with the same request, and may need its reasoning.
    assert isinstance(said, AssistantMessage)
    assert said.reasoning == reasoning
    context.add(Message(5, Role.user, "another request", 0))
    # All of it was given up.
    given_up = [context.messages()[0], context.messages()[3]]
    assert [str(message.text).count("cancelled or failed") for message in given_up] == [1, 1]


def test_a_summary_has_the_request_with_what_steered_it():
    call = [{"id": "c1", "name": "bash", "arguments": "{}"}]
    context = ModelContext(
        [
            Message(1, Role.user, "tidy up", 0),
            Message(2, Role.assistant, "", 0, call),
            Message(3, Role.tool, "x" * 3000, 0, None, "c1"),
            steering(4, "but not the garden"),
            Message(5, Role.assistant, "", 0, [call[0] | {"id": "c2"}]),
            Message(6, Role.tool, "y" * 3000, 0, None, "c2"),
        ],
        budget=1500,
    )
    assert context.compact() is not None
    summary = context.messages()[0].text
    assert summary.endswith("tidy up\n\nbut not the garden")
