"""Messages as they are sent: whatever a model wrote, the next request is one that servers take."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.models.message_encoding import assistant_message, system_message, tool_message, user_message
from interlock.models.provider import RequestedCall
from tests.harness.model_request_checks import message_faults


def faults(*messages: bytes) -> list[str]:
    return message_faults([orjson.loads(message) for message in messages], orjson.loads)


def test_a_conversation_is_encoded_as_servers_know_it():
    call = RequestedCall("c1", "read_file", '{"path": "a"}')
    assert orjson.loads(assistant_message("Let me see.", [call])) == {
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
    assert orjson.loads(tool_message("c1", "x")) == {"role": "tool", "tool_call_id": "c1", "content": "x"}
    assert orjson.loads(system_message("s")) == {"role": "system", "content": "s"}


@pytest.mark.parametrize("blank", ["", "\n\n"])
def test_an_answer_without_words_has_an_empty_text_and_beside_calls_none(blank):
    assert orjson.loads(assistant_message(blank)) == {"role": "assistant", "content": ""}
    calling = assistant_message(blank, [RequestedCall("c", "a", "{}")])
    assert orjson.loads(calling)["content"] is None


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
    message = orjson.loads(assistant_message("", [RequestedCall("c", "a", written)]))
    assert message["tool_calls"][0]["function"]["arguments"] == sent


@given(
    name=st.text(st.characters(codec="utf-8"), max_size=80), arguments=st.text(st.characters(codec="utf-8"))
)
def test_whatever_was_called_and_how_the_history_stays_valid(name, arguments):
    call = RequestedCall("c1", name, arguments)
    history = (
        system_message("s"),
        user_message("u"),
        assistant_message("", [call]),
        tool_message("c1", "no such tool"),
    )
    assert faults(*history) == []


def test_an_id_that_another_server_gave_out_is_shortened_for_the_call_and_its_answer():
    """vLLM's have 46 characters, and OpenAI takes 40: a session may go on with another model."""
    ids = ["chatcmpl-tool-" + digit * 32 for digit in "ab"]
    calls = [RequestedCall(identity, "a", "{}") for identity in ids]
    answers = [tool_message(identity, "x") for identity in ids]
    assert faults(user_message("u"), assistant_message("", calls), *answers) == []
    kept = "functions.read_file:0"
    assert orjson.loads(tool_message(kept, "x"))["tool_call_id"] == kept


def test_the_rules_of_the_double_find_what_providers_refuse():
    call = RequestedCall("c1", "a", "{}")
    user, calling = user_message("u"), assistant_message("", [call])
    assert faults(user, calling) == [
        "the call c1 has no answer",
        "the last message is of the role assistant",
    ]
    assert faults(user, calling, user) == ["the call c1 has no answer before message 2 (user)"]
    assert faults(user, tool_message("c1", "x")) == ["message 1 (tool) answers 'c1', which is not open"]
    twice = faults(user, calling, tool_message("c1", "x"), tool_message("c1", "x"))
    assert twice == ["message 3 (tool) answers 'c1', which is not open"]
    assert faults(user, system_message("s"), user) == ["message 1 (system) is not the first"]
    assert faults(assistant_message("x"), user) == ["message 0 (assistant) follows nothing"]
    same = assistant_message("", [call, call])
    assert faults(user, same, tool_message("c1", "x")) == [
        "message 1 (assistant) has the call id 'c1', empty or twice"
    ]
    assert faults(b'{"role":"user"}') == ["message 0 (user) has no text"]
