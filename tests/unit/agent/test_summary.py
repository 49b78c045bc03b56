"""Summaries that a model writes: bounded, redacted, paid for, and nothing but data to it."""

import asyncio

import pytest

from interlock.agent.context import ModelContext
from interlock.agent.summary import Summary, summarize
from interlock.core.token_usage import TokenUsage
from interlock.models.provider import (
    AssistantMessage,
    FinishReason,
    ModelError,
    ModelFault,
    ModelReply,
    RequestedCall,
    SystemMessage,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from interlock.redaction.redactor import MARK, Redactor
from interlock.sessions.models import Role
from tests.unit.agent.test_conversation import assert_valid, decoded, exchange, said
from tests.unit.models.asking import Saying

SECRET = "correct-horse-battery-staple"
MESSAGES = [
    UserMessage("Fix the bug, and keep the tests."),
    AssistantMessage("I look.", [RequestedCall("c1", "read_file", '{"path": "a.py"}')]),
    ToolMessage("c1", "x = 1"),
    AssistantMessage("Done."),
]


def written_by(model, messages=MESSAGES, budget_tokens=1000) -> Summary:
    asking = summarize(model, messages, budget_tokens=budget_tokens, redactor=Redactor([SECRET]))
    return asyncio.run(asking)


def test_a_model_is_asked_for_it_with_one_quoted_text_and_no_tools():
    model = Saying("The user wants a bug fixed.")
    assert written_by(model) == Summary("The user wants a bug fixed.", TokenUsage(10, 5))
    (request,) = model.requests
    assert (request.tools, request.tool_choice) == (b"", ToolChoice.none)
    system, asked = request.messages
    assert isinstance(system, SystemMessage)
    assert isinstance(asked, UserMessage)
    lines = asked.text.splitlines()
    assert lines[2:7] == [
        "user: Fix the bug, and keep the tests.",
        "assistant: I look.",
        'assistant calls read_file: {"path": "a.py"}',
        "result: x = 1",
        "assistant: Done.",
    ]


def test_a_secret_that_the_model_writes_is_masked():
    assert written_by(Saying(f"The key is {SECRET}.")).text == f"The key is {MARK}."


def test_neither_what_is_asked_nor_what_is_written_exceeds_its_bound():
    long = [UserMessage("First: " + "x" * 100), *[UserMessage("y" * 200)] * 400, UserMessage("The last.")]
    model = Saying("z" * 10_000)
    assert len(written_by(model, long, budget_tokens=200).text) == 601
    text = model.requests[0].messages[1].text
    assert len(text) < 8 * 600 + 200
    assert "user: First: " in text
    assert "more omitted" in text
    assert "The last." in text


def test_results_are_given_in_part():
    model = Saying("ok")
    written_by(model, [*MESSAGES[:2], ToolMessage("c1", "x" * 5000)])
    assert "… (5000 characters)" in model.requests[0].messages[1].text


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply(" "),
        ModelReply("half of", finish_reason=FinishReason.content_filter),
        ModelReply("Look.", (RequestedCall("c", "bash", "{}"),), FinishReason.tool_calls),
    ],
)
def test_what_cannot_be_used_is_paid_for_and_empty(reply):
    summary = written_by(Saying(reply))
    assert summary.text == ""
    assert summary.usage.input_tokens > 100
    assert summary.usage.output_tokens > 0


def test_a_fault_is_raised():
    class Failing(Saying):
        async def stream(self, request):
            self.requests.append(request)
            raise ModelError(ModelFault.server, "down")
            yield

    with pytest.raises(ModelError, match="down"):
        written_by(Failing())


# -- in a conversation -------------------------------------------------------------------------------


def test_a_written_summary_takes_the_place_of_what_it_is_of():
    messages = [message for start in range(1, 60, 4) for message in exchange(start)]
    budget = ModelContext(messages).tokens // 2
    conversation = ModelContext(messages, budget=budget)
    older = conversation.older_messages()
    kept = conversation.messages()[len(older) :]
    done = conversation.compact(summary="The user asked many things.\nAll is answered.")
    assert done is not None
    first, *rest = conversation.messages()
    assert rest == kept
    assert first.text.endswith("The user asked many things.\nAll is answered.")
    assert "question 1 " not in first.text
    assert_valid(decoded(conversation))
    again = ModelContext(messages, budget=budget)
    again.compact_through(done.through_seq, summary="The user asked many things.\nAll is answered.")
    assert again.messages() == conversation.messages()
    assert again.tokens == conversation.tokens


def test_the_next_summary_is_of_the_one_before_and_what_came_since():
    conversation = ModelContext(
        [message for start in range(1, 60, 4) for message in exchange(start)], budget=2000
    )
    conversation.compact(summary="The first summary.")
    for message in [message for start in range(61, 120, 4) for message in exchange(start)]:
        conversation.add(message)
    older = conversation.older_messages()
    assert "The first summary." in older[0].text
    assert any("question 61 " in message.text for message in older)
    # Without another summary, what came since is told in its first lines.
    conversation.compact()
    text = conversation.messages()[0].text
    assert "The first summary.\n" in text
    assert "person: question" in text


def test_nothing_is_older_than_the_newest_exchange():
    conversation = ModelContext([said(1, Role.user, "go")], budget=10)
    assert conversation.older_messages() == []
