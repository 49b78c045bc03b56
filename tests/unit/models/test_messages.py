"""Messages as they are sent: whatever a model wrote, the next request is one that servers take."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.models.message_encoding import encode_message
from interlock.models.provider import (
    AssistantMessage,
    ChatMessage,
    RequestedCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from tests.harness.model_request_checks import message_faults


def encoded(message: ChatMessage) -> dict:
    return orjson.loads(encode_message(message))


def faults(*messages: ChatMessage) -> list[str]:
    return message_faults([encoded(message) for message in messages], orjson.loads)


def test_a_conversation_is_encoded_as_servers_know_it():
    call = RequestedCall("c1", "read_file", '{"path": "a"}')
    assert encoded(AssistantMessage("Let me see.", [call])) == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "read_file", "arguments": '{"path": "a"}'},
            }
        ],
    }
    assert encoded(ToolMessage("c1", "x")) == {"role": "tool", "tool_call_id": "c1", "content": "x"}
    assert encoded(SystemMessage("s")) == {"role": "system", "content": "s"}


@pytest.mark.parametrize("blank", ["", "\n\n"])
def test_an_answer_without_words_has_an_empty_text_and_beside_calls_none(blank):
    assert encoded(AssistantMessage(blank)) == {"role": "assistant", "content": ""}
    calling = AssistantMessage(blank, [RequestedCall("c", "a", "{}")])
    assert encoded(calling)["content"] is None


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("", "{}"),
        ("  ", "{}"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": ', '{"unreadable_arguments":"{\\"a\\": "}'),
        ("[1]", '{"unreadable_arguments":"[1]"}'),
    ],
)
def test_arguments_that_are_no_object_are_quoted_in_one(written, sent):
    message = encoded(AssistantMessage("", [RequestedCall("c", "a", written)]))
    assert message["tool_calls"][0]["function"]["arguments"] == sent


@given(
    name=st.text(st.characters(codec="utf-8"), max_size=80), arguments=st.text(st.characters(codec="utf-8"))
)
def test_whatever_was_called_and_how_the_history_stays_valid(name, arguments):
    call = RequestedCall("c1", name, arguments)
    history = (
        SystemMessage("s"),
        UserMessage("u"),
        AssistantMessage("", [call]),
        ToolMessage("c1", "no such tool"),
    )
    assert faults(*history) == []


def test_an_id_that_another_server_gave_out_is_shortened_for_the_call_and_its_answer():
    """vLLM's have 46 characters, and OpenAI takes 40: a session may go on with another model."""
    ids = ["chatcmpl-tool-" + digit * 32 for digit in "ab"]
    calls = [RequestedCall(identity, "a", "{}") for identity in ids]
    answers = [ToolMessage(identity, "x") for identity in ids]
    assert faults(UserMessage("u"), AssistantMessage("", calls), *answers) == []
    kept = "functions.read_file:0"
    assert encoded(ToolMessage(kept, "x"))["tool_call_id"] == kept


def test_the_rules_of_the_double_find_what_providers_refuse():
    call = RequestedCall("c1", "a", "{}")
    user, calling = UserMessage("u"), AssistantMessage("", [call])
    assert faults(user, calling) == [
        "the call c1 has no answer",
        "the last message is of the role assistant",
    ]
    assert faults(user, calling, user) == ["the call c1 has no answer before message 2 (user)"]
    assert faults(user, ToolMessage("c1", "x")) == ["message 1 (tool) answers 'c1', which is not open"]
    twice = faults(user, calling, ToolMessage("c1", "x"), ToolMessage("c1", "x"))
    assert twice == ["message 3 (tool) answers 'c1', which is not open"]
    assert faults(user, SystemMessage("s"), user) == ["message 1 (system) is not the first"]
    assert faults(AssistantMessage("x"), user) == ["message 0 (assistant) follows nothing"]
    same = AssistantMessage("", [call, call])
    assert faults(user, same, ToolMessage("c1", "x")) == [
        "message 1 (assistant) has the call id 'c1', empty or twice"
    ]
    assert message_faults([{"role": "user"}], orjson.loads) == ["message 0 (user) has no text"]
