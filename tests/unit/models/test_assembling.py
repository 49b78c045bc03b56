"""One reply from many chunks, whatever the habits of the server that sends them."""

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.token_usage import TokenUsage
from interlock.models import stream_accumulator
from interlock.models.provider import FinishReason, ModelError, ModelFault, ModelReply
from interlock.models.stream_accumulator import MAX_CALLS, StreamAccumulator
from tests.harness.model_answers import call_chunks, call_delta, chunk, text_chunks, usage_chunk
from tests.unit.models.assembled import assembled


def test_text_comes_piece_by_piece_and_whole():
    reply = assembled(*text_chunks(["Hel", "lo ", "世界"]), usage_chunk(11, 7))
    assert reply == ModelReply("Hello 世界", (), FinishReason.stop, TokenUsage(11, 7))


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("stop", FinishReason.stop),
        ("length", FinishReason.length),
        ("max_tokens", FinishReason.length),
        ("content_filter", FinishReason.content_filter),
        ("tool_calls", FinishReason.stop),
        ("eos_token", FinishReason.stop),
    ],
)
def test_the_reason_of_the_end_is_known_by_its_names(said, understood):
    assert assembled(chunk({"content": "x"}), finish=said).finish_reason is understood


def test_calls_are_the_reason_of_the_end_whatever_the_server_says():
    reply = assembled(*call_chunks(call_delta(0, name="a", arguments="{}", call_id="1")), finish="stop")
    assert reply.finish_reason is FinishReason.tool_calls


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_an_answer_may_be_stopped_before_it_began(finish):
    assert assembled(finish=finish).text == ""


def test_an_empty_answer_is_none():
    with pytest.raises(ModelError, match=r"^the model's response is empty$") as caught:
        assembled(*text_chunks([""]))
    assert caught.value.fault is ModelFault.protocol


def test_an_answer_without_its_end_was_cut_off():
    with pytest.raises(ModelError, match=r"^the model's response was cut off$") as caught:
        assembled(chunk({"content": "x"}), finish=None)
    assert caught.value.fault is ModelFault.network


def test_a_server_that_says_it_is_done_need_not_say_how():
    assembly = StreamAccumulator()
    assembly.add(orjson.dumps(chunk({"content": "x"})))
    assert assembly.reply(is_done=True).text == "x"


# -- what else servers send --------------------------------------------------------------------------


def test_thoughts_are_passed_over():
    reply = assembled(
        chunk({"reasoning_content": "let me think"}),
        chunk({"reasoning": "and think", "content": None}),
        chunk({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "so"}]}),
    )
    assert reply.text == "so"


def test_a_refusal_of_the_model_is_its_text():
    assert assembled(chunk({"refusal": "I will not."})).text == "I will not."


def test_chunks_without_choices_are_passed_over():
    assert assembled({"choices": []}, {}, {"choices": None}, chunk({"content": "x"})).text == "x"


@pytest.mark.parametrize(
    "usage", [{}, 3, {"prompt_tokens": -1, "completion_tokens": 2}, {"prompt_tokens": True}, {"x": 1}]
)
def test_usage_of_an_unknown_form_is_no_usage(usage):
    assert assembled(chunk({"content": "x"}, usage=usage)).usage is None


def test_the_last_usage_counts():
    assert assembled(chunk({"content": "x"}), usage_chunk(1, 1), usage_chunk(5, 6)).usage == TokenUsage(
        5, 6
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "a chunk of the response is not JSON"),
        (b'"x"', "a chunk of the response is not an object"),
        (b'{"choices": {"a": 1}}', "a chunk of the response has choices of an unknown form"),
        (b'{"choices": [3]}', "a chunk of the response has choices of an unknown form"),
        (b'{"choices": [{"delta": "x"}]}', "a chunk of the response has a delta of an unknown form"),
        (
            b'{"choices": [{"delta": {"content": 3}}]}',
            "a chunk of the response has text of an unknown form",
        ),
        (
            b'{"choices": [{"delta": {"tool_calls": {"a": 1}}}]}',
            "a chunk of the response has tool calls of an unknown form",
        ),
        (b'{"choices": [{"delta": {"tool_calls": [3]}}]}', "a tool call in the response has no function"),
        (
            b'{"choices": [{"delta": {"tool_calls": [{"function": {"name": 3}}]}}]}',
            "a tool call in the response has an unknown form of name",
        ),
        (
            b'{"choices": [{"delta": {"tool_calls": [{"id": 3, "function": {}}]}}]}',
            "a tool call in the response has an unknown form of id",
        ),
    ],
)
def test_a_malformed_chunk_is_told_for_what_it_is(data, reason):
    with pytest.raises(ModelError) as caught:
        StreamAccumulator().add(data)
    assert str(caught.value) == f"the model's server sent a response that cannot be parsed: {reason}"
    assert caught.value.fault is ModelFault.protocol


def test_a_call_without_a_name_is_no_call():
    with pytest.raises(ModelError, match="a tool call in the response has no name"):
        assembled(*call_chunks(call_delta(0, arguments="{}", call_id="1")))


def test_an_answer_cannot_ask_for_calls_without_end():
    deltas = [call_delta(index, name="a", arguments="{}") for index in range(MAX_CALLS + 1)]
    assert len(assembled(*call_chunks(*deltas[:-1])).tool_calls) == MAX_CALLS
    with pytest.raises(ModelError, match=f"more than {MAX_CALLS} tool calls"):
        assembled(*call_chunks(*deltas))


def test_an_answer_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(stream_accumulator, "MAX_REPLY_BYTES", 2000)
    with pytest.raises(ModelError, match=r"^the model's response exceeds the size limit$"):
        assembled(*[chunk({"content": "x"})] * 50)


@pytest.mark.parametrize(
    ("error", "fault", "text"),
    [
        (
            {"message": "overloaded"},
            ModelFault.server,
            "the model's server aborted the response: overloaded",
        ),
        ("gone", ModelFault.server, "the model's server aborted the response: gone"),
        ({"message": ""}, ModelFault.server, ('the model\'s server aborted the response: {"message":""}')),
        (
            {"code": 429, "message": "slow down"},
            ModelFault.rate_limited,
            "the model's server reports too many requests (429); the model's server says: slow down",
        ),
        (
            {"code": "400", "message": "maximum context length is 8192 tokens"},
            ModelFault.too_long,
            (
                "the conversation is too long for the model (400); "
                "the model's server says: maximum context length is 8192 tokens"
            ),
        ),
    ],
)
def test_an_error_in_the_stream_ends_it_with_its_class(error, fault, text):
    with pytest.raises(ModelError) as caught:
        StreamAccumulator().add(orjson.dumps({"error": error}))
    assert (caught.value.fault, str(caught.value)) == (fault, text)


def test_the_key_is_never_in_an_error_even_where_the_server_repeats_it():
    key = "sk-very-secret-0123456789"
    for filler in range(260, 310):
        said = f"{'x' * filler} the key {key} is wrong"
        with pytest.raises(ModelError) as caught:
            StreamAccumulator(key).add(orjson.dumps({"error": {"message": said}}))
        assert "very" not in str(caught.value)


def test_what_a_server_says_cannot_drive_a_terminal():
    with pytest.raises(ModelError) as caught:
        StreamAccumulator().add(orjson.dumps({"error": {"message": "\x1b[2Jcleared\nhere"}}))
    assert str(caught.value) == "the model's server aborted the response: \\x1b[2Jcleared here"


# -- nothing but a ModelError ------------------------------------------------------------------------

KEYS = st.sampled_from(
    [
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "index",
        "id",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "error",
        "code",
        "type",
        "text",
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
SHAPED = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries({}, optional={"delta": JSON, "finish_reason": JSON}), max_size=2
        )
    },
    optional={"usage": JSON, "error": JSON},
)
CALL_SHAPED = st.lists(
    st.fixed_dictionaries(
        {"function": st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON})},
        optional={"index": JSON, "id": JSON},
    ),
    max_size=3,
).map(lambda calls: chunk({"tool_calls": calls}))


@given(documents=st.lists(JSON | SHAPED | CALL_SHAPED, max_size=6))
def test_json_of_any_shape_gives_a_reply_or_a_model_error(documents):
    assembly = StreamAccumulator()
    try:
        shown = "".join(assembly.add(orjson.dumps(document)) for document in documents)
        reply = assembly.reply(is_done=True)
    except ModelError:
        return
    assert shown == reply.text
    assert all(type(part) is str for call in reply.tool_calls for part in (call.call_id, call.name))
    assert reply.text or reply.tool_calls or reply.finish_reason is not FinishReason.stop


@given(data=st.binary(max_size=60))
def test_bytes_of_any_kind_give_text_or_a_model_error(data):
    with suppress(ModelError):
        assert isinstance(StreamAccumulator().add(data), str)


def test_arguments_nested_without_end_are_a_model_error():
    deep = b'{"x":' * 300 + b"1" + b"}" * 300
    piece = b'{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":' + deep + b"}}]}}]}"
    with pytest.raises(ModelError, match="nested too deeply"):
        StreamAccumulator().add(piece)
