"""Tools for models without function calling, by one JSON object a turn."""

import asyncio
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.token_usage import TokenUsage
from interlock.models.json_protocol import JsonProtocolProvider
from interlock.models.json_reply import (
    InvalidReply,
    JsonCall,
    JsonReply,
    parse_json_reply,
)
from interlock.models.message_encoding import encode_message
from interlock.models.provider import (
    AssistantMessage,
    FinishReason,
    ModelFault,
    ModelReply,
    ModelRequest,
    RequestedCall,
    SystemMessage,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from tests.harness.case_tables import each_row
from tests.harness.model_request_checks import message_faults
from tests.unit.models.asking import Saying, asked, failed, streamed

CALLING = '{"tool_calls": [{"name": "read_file", "arguments": {"path": "a"}}], "final_answer": ""}'
ANSWERING = '{"tool_calls": [], "final_answer": "It is done."}'
SAY_IT = "to say something to the user, write all of it into final_answer"
TOOLS = orjson.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": "read_file",
                "description": "Read a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
    ]
)


# -- reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        CALLING,
        f"  \n{CALLING}\n",
        f"```json\n{CALLING}\n```",
        f"```\n{CALLING}\n```",
        f"<think>maybe {ANSWERING}</think>\n{CALLING}",
        CALLING.replace(', "final_answer": ""', ""),
        CALLING.replace('"final_answer": ""', '"final_answer": "ignored"'),
    ],
)
def test_an_object_alone_or_alone_in_one_fence_is_a_call(text):
    assert parse_json_reply(text) == JsonReply(
        tool_calls=[JsonCall(name="read_file", arguments={"path": "a"})]
    )


QUOTING = [
    f"I will read it.\n{CALLING}",
    f"{CALLING}\nThat is all.",
    f"I refuse. The ticket says:\n```json\n{CALLING}\n```\nIt is an attack.",
    f"```json\n{CALLING}\n```\nThe ticket asks for this; I do not do it.",
    f"The ticket asks for this:\n```json\n{CALLING}\n```",
    f"```json\n{CALLING}\n```\n```json\n{CALLING}\n```",
    f"```\nThe ticket: {CALLING}\n```",
    f"```text\n{CALLING}\n```",
    f"> {CALLING}",
    f"`{CALLING}`",
    json.dumps(CALLING),
    f"[{CALLING}]",
    f"{CALLING}{CALLING}",
    f"{CALLING}}}",
    f"<think>The ticket says </think>{CALLING} and I refuse.</think>\nNo.",
    f"Thinking. <think>hm</think>{CALLING}",
]


@each_row("text", QUOTING)
def test_an_object_that_is_quoted_is_no_call(text):
    with pytest.raises(InvalidReply):
        parse_json_reply(text)


@each_row("text", QUOTING)
def test_a_model_that_quoted_an_object_is_asked_for_its_answer_and_nothing_is_called(text):
    inner = Saying(text, ANSWERING)
    reply = asked(JsonProtocolProvider(inner))
    assert (reply.text, reply.tool_calls) == ("It is done.", ())
    assert len(inner.requests) == 2


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"tool_calls": [], "final_answer": f"The ticket says {CALLING}"}),
        json.dumps({"final_answer": f"The ticket says {CALLING}", "tool_calls": []}),
        # Not escaped, or not alone: asked for again.
        f'{{"tool_calls": [], "final_answer": "The ticket says {CALLING}"}}',
        f"{ANSWERING}\n{CALLING}",
    ],
)
def test_an_answer_that_quotes_an_object_calls_nothing(text):
    assert asked(JsonProtocolProvider(Saying(text, ANSWERING))).tool_calls == ()


def test_an_answer_is_found():
    assert parse_json_reply(ANSWERING) == JsonReply(final_answer="It is done.")
    assert parse_json_reply('{"final_answer": "x"}') == JsonReply(final_answer="x")


def test_a_call_without_arguments_has_none():
    assert parse_json_reply('{"tool_calls": [{"name": "a"}]}').tool_calls == [JsonCall(name="a")]


def test_a_line_end_in_an_answer_need_not_be_escaped():
    assert parse_json_reply('{"final_answer": "one\ntwo"}').final_answer == "one\ntwo"


@each_row(
    ("text", "reason"),
    [
        ("I think so.", f"it is not a single JSON object; {SAY_IT}"),
        ("", f"it is not a single JSON object; {SAY_IT}"),
        ("[1]", f"it is not a single JSON object; {SAY_IT}"),
        (f"{CALLING} Done.", f"something follows the JSON object; {SAY_IT}"),
        (
            '{"tool_calls": [], "final_answer": ""}',
            "tool_calls and final_answer are both empty; give one of them",
        ),
        (
            '{"tool_calls": [], "final_answer": " \\n"}',
            "tool_calls and final_answer are both empty; give one of them",
        ),
        ("{}", "tool_calls and final_answer are both empty; give one of them"),
        (
            '{"tool_call": [], "final_answer": "x"}',
            "tool_call is not a known key",
        ),
        ('{"tool_calls": {}, "final_answer": "x"}', "tool_calls must be a list"),
        ('{"final_answer": 3}', "final_answer must be a text"),
        ('{"tool_calls": ["a"]}', "tool_calls[0] must be an object"),
        ('{"tool_calls": [{"arguments": {}}]}', "tool_calls[0].name is missing"),
        (
            '{"tool_calls": [{"name": "a", "arguments": "x"}]}',
            "tool_calls[0].arguments must be an object",
        ),
        (
            '{"tool_calls": [{"name": "a"}, {"name": "b", "args": {}}]}',
            "tool_calls[1].args is not a known key",
        ),
        ('{"final_answer": "x", "final_answer": "y"}', "a key occurs twice"),
        ('{"tool_calls": [{"name": "a", "arguments": {"x": NaN}}]}', "NaN is not JSON"),
        (
            '{"tool_calls": [{"name": "a"',
            "it is not valid JSON: Expecting ',' delimiter at character 28",
        ),
        (
            '{"tool_calls": [{"name": "a", "arguments": {"x": ' + "9" * 5000 + "}}]}",
            "it is nested too deeply, or contains a number that is too long",
        ),
        (
            '{"tool_calls": [' + "[" * 100_000,
            "it is nested too deeply, or contains a number that is too long",
        ),
        (json.dumps({"tool_calls": [{"name": "a"}] * 129}), "tool_calls has more than 128 entries"),
    ],
)
def test_anything_else_is_told_to_the_model_for_what_it_is(text, reason):
    with pytest.raises(InvalidReply) as caught:
        parse_json_reply(text)
    assert str(caught.value) == reason


@given(text=st.text() | st.builds(lambda a, b: a + CALLING + b, st.text(max_size=20), st.text(max_size=20)))
def test_any_text_is_read_or_invalid(text):
    try:
        reply = parse_json_reply(text)
    except InvalidReply:
        return
    assert bool(reply.tool_calls) != bool(reply.final_answer)


# -- the provider ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [ANSWERING, '{"final_answer": "It is done.", "tool_calls": []}'])
def test_an_answer_is_shown_when_it_is_complete(text):
    pieces, reply = asyncio.run(streamed(JsonProtocolProvider(Saying(text))))
    assert pieces == ["It is done."]
    assert reply == ModelReply("It is done.", (), FinishReason.stop, TokenUsage(10, 5))


def test_calls_become_calls():
    reply = asked(JsonProtocolProvider(Saying(CALLING)))
    (call,) = reply.tool_calls
    assert (call.name, call.arguments) == ("read_file", '{"path": "a"}')
    assert call.call_id.startswith("call_")
    assert (reply.text, reply.finish_reason) == ("", FinishReason.tool_calls)


def test_of_both_the_tools_run_and_the_answer_waits():
    text = '{"final_answer": "done", "tool_calls": [{"name": "a"}]}'
    reply = asked(JsonProtocolProvider(Saying(text)))
    assert (reply.text, len(reply.tool_calls)) == ("", 1)


def test_a_history_that_grows_is_put_in_this_form_once():
    inner = Saying(*[ANSWERING] * 4)
    provider = JsonProtocolProvider(inner)
    history = [UserMessage("Hi")]
    for number in range(3):
        calls = [RequestedCall(f"c{number}", "a", "{}"), RequestedCall(f"d{number}", "b", "{}")]
        history += [
            AssistantMessage("", calls),
            ToolMessage(f"c{number}", "x"),
            ToolMessage(f"d{number}", "y"),
        ]
        asked(provider, ModelRequest(tuple(history), TOOLS))
    _, *earlier = inner.requests[-2].messages
    _, *newest = inner.requests[-1].messages
    assert len(newest) == len(earlier) + 2
    assert all(new is old for new, old in zip(newest, earlier, strict=False))
    # A result that was cut since is another object, and so is the message of its turn.
    history[2] = ToolMessage("c0", "cut")
    asked(provider, ModelRequest(tuple(history), TOOLS))
    assert "cut" in inner.requests[-1].messages[3].text


def test_a_wrong_reply_is_told_to_the_model_once():
    inner = Saying("I would rather talk.", CALLING)
    reply = asked(JsonProtocolProvider(inner))
    assert len(reply.tool_calls) == 1
    assert reply.usage == TokenUsage(20, 10)
    first, second = inner.requests
    assert second.messages[: len(first.messages)] == first.messages
    said, told = (orjson.loads(encode_message(each)) for each in second.messages[len(first.messages) :])
    assert said == {"role": "assistant", "content": "I would rather talk."}
    assert told["role"] == "user"
    assert SAY_IT in told["content"]


def test_a_second_wrong_reply_fails_the_turn():
    inner = Saying("no", '{"tool_calls": [], "final_answer": ""}')
    error = failed(JsonProtocolProvider(inner))
    assert len(inner.requests) == 2
    assert (error.fault, str(error)) == (
        ModelFault.validation,
        (
            "the model did not answer in the required form, twice: tool_calls and final_answer "
            "are both empty; give one of them"
        ),
    )


def test_an_empty_reply_is_repaired_too():
    inner = Saying(ModelReply(""), ANSWERING)
    assert asked(JsonProtocolProvider(inner)).text == "It is done."
    messages = [orjson.loads(encode_message(message)) for message in inner.requests[1].messages]
    assert message_faults(messages, orjson.loads) == []


def test_a_reply_that_was_cut_at_its_length_is_repaired():
    for text, again in ((CALLING[:30], CALLING), (ANSWERING[:45], ANSWERING)):
        inner = Saying(ModelReply(text, finish_reason=FinishReason.length), again)
        reply = asked(JsonProtocolProvider(inner))
        assert bool(reply.tool_calls) is (again is CALLING)
        assert "too long" in inner.requests[1].messages[-1].text


def test_a_filtered_reply_stays_what_it_is():
    filtered = ModelReply("", finish_reason=FinishReason.content_filter)
    assert asked(JsonProtocolProvider(Saying(filtered))).finish_reason is FinishReason.content_filter


def test_calls_that_the_server_found_by_itself_are_taken():
    found = ModelReply("", (RequestedCall("c1", "a", "{}"),), FinishReason.tool_calls)
    assert asked(JsonProtocolProvider(Saying(found))) == found


def test_a_call_that_the_server_found_within_text_is_not_taken():
    found = ModelReply("I refuse this:", (RequestedCall("c1", "bash", "{}"),), FinishReason.tool_calls)
    inner = Saying(found, ANSWERING)
    assert asked(JsonProtocolProvider(inner)) == ModelReply(
        "It is done.", (), FinishReason.stop, TokenUsage(10, 5)
    )


def test_the_model_behind_is_named_and_closed():
    inner = Saying()
    provider = JsonProtocolProvider(inner)
    assert provider.name == "saying"
    asyncio.run(provider.close())
    assert inner.is_closed


# -- what the model behind is told -------------------------------------------------------------------


def told(request: ModelRequest) -> list[dict]:
    inner = Saying(ANSWERING)
    asked(JsonProtocolProvider(inner), request)
    (asking,) = inner.requests
    assert asking.tools == b""
    assert asking.max_output_tokens == request.max_output_tokens
    messages = [orjson.loads(encode_message(message)) for message in asking.messages]
    assert message_faults(messages, orjson.loads) == []
    return messages


def test_tools_and_the_form_stand_in_the_prompt():
    request = ModelRequest((SystemMessage("Be kind."), UserMessage("Hi")), TOOLS, max_output_tokens=7)
    prompt = told(request)[0]["content"]
    assert prompt.startswith("Be kind.\n\nAlways answer with exactly one JSON object")
    assert "- read_file: Read a file.\n" in prompt
    assert '{"type":"object","properties":{"path":{"type":"string"}}}' in prompt
    assert "This time use a tool" not in prompt


def test_a_required_tool_is_asked_for_in_words():
    request = ModelRequest((UserMessage("Hi"),), TOOLS, ToolChoice.required)
    assert "tool_calls must not be empty" in told(request)[0]["content"]


def test_without_tools_the_model_is_told_so():
    assert "There are no tools" in told(ModelRequest((UserMessage("Hi"),)))[0]["content"]


def test_the_history_is_put_in_the_same_form():
    calls = [RequestedCall("c1", "read_file", '{"path":"a"}'), RequestedCall("c2", "bash", "oops")]
    history = (
        UserMessage("Hi"),
        AssistantMessage("", calls),
        ToolMessage("c1", '{"ok":true,"stdout":"x"}'),
        ToolMessage("c2", "plain"),
        AssistantMessage("Done."),
        UserMessage("Thanks"),
    )
    _, *messages = told(ModelRequest(history, TOOLS))
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert orjson.loads(messages[1]["content"]) == {
        "tool_calls": [
            {"name": "read_file", "arguments": {"path": "a"}},
            {"name": "bash", "arguments": {"unreadable_arguments": "oops"}},
        ],
        "final_answer": "",
    }
    assert orjson.loads(messages[2]["content"]) == {
        "tool_results": [
            {"name": "read_file", "result": {"ok": True, "stdout": "x"}},
            {"name": "bash", "result": "plain"},
        ]
    }
    assert orjson.loads(messages[3]["content"]) == {"tool_calls": [], "final_answer": "Done."}


def test_the_last_results_come_last():
    history = (
        UserMessage("Hi"),
        AssistantMessage("", [RequestedCall("c1", "a", "{}")]),
        ToolMessage("c1", "x"),
    )
    assert "tool_results" in told(ModelRequest(history, TOOLS))[-1]["content"]


@pytest.mark.parametrize("depth", [200, 252, 300, 1000, 5000])
def test_a_history_nested_deeper_than_can_be_encoded_is_told_as_text(depth):
    """A session would else be lost: every further turn would fail on it."""
    deep = f'{{"a": {"[" * depth}{"]" * depth}}}'
    history = (
        UserMessage("go"),
        AssistantMessage("", [RequestedCall("c1", "read_file", deep)]),
        ToolMessage("c1", f'{{"ok": false, "meta": {deep}}}'),
    )
    model = Saying(ANSWERING)
    reply = asked(JsonProtocolProvider(model), ModelRequest(history, TOOLS))
    assert reply.text == "It is done."
