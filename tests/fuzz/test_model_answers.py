"""What a model's server sends: however it is cut and whatever stands in it, a reply or an error of ours."""

import asyncio
import re
import time
import tracemalloc
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.models import server_errors
from interlock.models.json_protocol import JsonProtocolProvider
from interlock.models.json_reply import InvalidReply, JsonReply, parse_json_reply
from interlock.models.openai_chat import _read
from interlock.models.provider import ModelError, ModelReply, ModelTextDelta, RequestedCall
from interlock.models.sse import SseEventTooLong, SseReader
from interlock.models.stream_accumulator import StreamAccumulator
from tests.fuzz.odd import DEEP, cut, spoiled, torn, written
from tests.harness.model_answers import (
    DONE,
    call_chunks,
    call_delta,
    chunk,
    event,
    text_chunks,
    usage_chunk,
)
from tests.unit.models.asking import Saying, streamed

CALLS = (
    call_delta(0, name="read_file", arguments='{"path": ', call_id="call_a"),
    call_delta(0, arguments='"a.txt"}'),
    call_delta(1, name="bash", arguments="{}", call_id="call_b"),
)
CHUNKS = [*text_chunks(["Hel", "lo ", "世界 \U0001f600"]), *call_chunks(*CALLS), usage_chunk(11, 7)]
CHUNKS += [chunk({"content": [{"type": "text", "text": "part"}]}), chunk(finish="stop")]
FAILURE = {"error": {"message": "overloaded", "code": 429, "type": "server_error"}}
WHOLE = {
    "choices": [
        {
            "message": {"role": "assistant", "content": "x", "tool_calls": [CALLS[2]]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}
SOUND = b"".join(map(event, CHUNKS)) + DONE

DOCUMENTS = st.one_of(
    st.lists(st.sampled_from([*CHUNKS, FAILURE]).flatmap(spoiled), min_size=1, max_size=4),
    st.just(CHUNKS).flatmap(lambda chunks: spoiled(list(chunks))).map(lambda given: [given]),
    spoiled(CHUNKS).filter(lambda given: isinstance(given, list)),
)
ENDINGS = st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n\r\n", b"\r\n\n", b"\n", b"\r\r", b"\n: alive\n\n"])
CUTS = st.lists(st.integers(0, 5000), max_size=12)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(["documents", "documents", "bytes", "whole"]))
    if kind == "whole":
        return draw(st.sampled_from([b"", b"\n", b" \r\n"])) + written(draw(spoiled(WHOLE)))
    if kind == "bytes":
        return draw(torn(SOUND))
    begin = draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\n", b": hello\n\n"]))
    events = [b"data: " + written(each) + draw(ENDINGS) for each in draw(DOCUMENTS)]
    return begin + b"".join(events) + draw(st.sampled_from([b"", DONE, b"data: [DONE]"]))


@dataclass
class Pieces:
    """An answer's body, in just these pieces: no socket could be made to give them so."""

    pieces: list[bytes]
    content_type: str = "text/event-stream"

    @property
    def content(self) -> "Pieces":
        return self

    async def iter_any(self):
        while self.pieces:
            yield self.pieces.pop(0)

    async def readany(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def outcome(pieces: list[bytes]) -> tuple[str, object]:
    """The text that was shown, and the reply or the fault. Ids that we made up are left out."""

    async def ask() -> tuple[str, object]:
        shown, end = [], None
        try:
            async for item in _read(Pieces(pieces), StreamAccumulator()):  # type: ignore[arg-type]
                if isinstance(item, ModelTextDelta):
                    shown.append(item.text)
                else:
                    end = item
        except ModelError as error:
            end = (error.fault, str(error))
        except SseEventTooLong:
            end = "too long"
        return "".join(shown), end

    text, end = asyncio.run(ask())
    if isinstance(end, tuple):
        assert len(end[1]) < 1000
    if isinstance(end, ModelReply):
        assert end.text == text
        _sound(end)
        calls = [
            replace(call, call_id=re.sub("^call_[0-9a-f]{16}$", "", call.call_id))
            for call in end.tool_calls
        ]
        end = replace(end, tool_calls=tuple(calls))
    return text, end


def _without_own_id(call: RequestedCall) -> RequestedCall:
    return replace(call, call_id=re.sub("^call_[0-9a-f]{16}$", "", call.call_id))


def _sound(reply: ModelReply) -> None:
    reply.text.encode()
    ids = [call.call_id for call in reply.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    for call in reply.tool_calls:
        assert call.name
        call.arguments.encode()
    if reply.usage is not None:
        # A sum of these over any task can be stored.
        assert 0 <= reply.usage.input_tokens < 2**48
        assert 0 <= reply.usage.output_tokens < 2**48


@given(stream=streams(), cuts=CUTS)
@example(SOUND.removesuffix(DONE) + event(usage_chunk(2**63, 1)) + DONE, [])
def test_a_stream_cut_anywhere_is_the_same_reply_or_the_same_fault(stream, cuts):
    whole = outcome([stream] if stream else [])
    assert outcome(cut(stream, cuts)) == whole
    assert outcome([bytes([byte]) for byte in stream[:2000]]) == outcome([stream[:2000]] if stream else [])


# Hypothesis lets a test go deeper than a program may, so what is nested is tried without it.
NESTED = b"[" * DEEP + b"]" * DEEP


@pytest.mark.parametrize(
    "document",
    [
        b'{"choices":[{"finish_reason":%b}]}',
        b'{"choices":[{"delta":{"content":%b}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":%b,"function":{"name":"a"}}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":%b}}]}}]}',
        b'{"error":{"code":%b}}',
        b'{"error":{"code":500,"type":%b,"message":%b}}',
        b'{"error":%b}',
        b'{"usage":{"prompt_tokens":%b}}',
        b"%b",
    ],
)
def test_what_is_nested_deeply_is_a_fault_of_the_server(document):
    stream = b"data: " + document.replace(b"%b", NESTED) + b"\n\n"
    assert isinstance(outcome([stream])[1], tuple | ModelReply)


@given(error=spoiled(FAILURE), status=st.sampled_from([400, 401, 404, 418, 429, 500, 503, 302]))
@example({"error": {"code": [], "message": None}}, 500)
def test_a_refusal_is_told_in_one_line_whatever_it_says(error, status):
    _one_line(written(error), status)


@pytest.mark.parametrize("key", ["code", "type", "message", "error", "detail"])
def test_a_refusal_that_is_nested_is_told_in_one_line(key):
    _one_line(b'{"error": {"' + key.encode() + b'": ' + NESTED + b"}}", 400)


def _one_line(body: bytes, status: int) -> None:
    error = server_errors.error_from_status(
        status, server_errors.parse_error_body(body), where="model 'm'", secret="s3cret"
    )
    assert len(str(error)) < 1000
    assert str(error).isprintable()


# -- bounds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [b"data:\n", b"data: \n", b"data:", b"xy", b": x", b"data: x\n"])
def test_an_event_that_never_ends_is_given_up_soon_and_holds_little(piece):
    reader, bound = SseReader(max_event_bytes=200_000), 200_000
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(SseEventTooLong):
        for _ in range(2 * bound):
            reader.feed(piece)
    spent, held = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 40 * bound
    assert spent < 10


def _seconds(work: Any, *given: Any) -> float:
    began = time.process_time()
    with suppress(InvalidReply):
        work(*given)
    return time.process_time() - began


@pytest.mark.parametrize("blank", ["\n", " ", " \n\t"])
def test_an_endless_blank_in_a_reply_takes_no_time(blank):
    """Models that are held to JSON are known for it."""
    many = blank * (20_000 // len(blank))
    for text in (f"```{many}", f"```json{many}{{", f"{{{many}", f'{{"tool_calls":{many}', f"<think>{many}"):
        assert _seconds(parse_json_reply, text) < 2, text[:20]


# -- the neutral form --------------------------------------------------------------------------------

CALL = {"name": "read_file", "arguments": {"path": "a", "n": [1, {"x": None}]}}
NEUTRAL = {"tool_calls": [CALL], "final_answer": ""}
ANSWER = {"tool_calls": [], "final_answer": 'He said "yes" \\ \n\u00e9 \U0001f600.'}


AROUND = ("{}", "```json\n{}\n```", "``` \n{}```", "<think>{}", "<think>a</think>{}", "So: {}!")


@st.composite
def written_replies(draw: st.DrawFn) -> str:
    data = written(draw(st.one_of(spoiled(NEUTRAL), spoiled(ANSWER), st.sampled_from([NEUTRAL, ANSWER]))))
    if draw(st.booleans()):
        data = draw(torn(data))
    text = data.decode("utf-8", "replace")
    around = draw(st.sampled_from(AROUND))
    return around.replace("{}", text)


def understood(text: str) -> JsonReply | str:
    """The reply, or what is wrong with it."""
    try:
        return parse_json_reply(text)
    except InvalidReply as fault:
        return str(fault)


@given(text=written_replies())
@example('{"\\ud800": 1}')
@example('{"' + "k" * 100_000 + '": 1}')
@example('{"tool_calls": [{"name": "a", "\\udfff": 1}]}')
@example("```json\n\n\n" + '{"final_answer": "x"}' + "\n\n```")
def test_a_reply_in_the_neutral_form_is_understood_or_told_to_be_wrong(text):
    read = understood(text)
    if isinstance(read, str):
        read.encode()
        assert len(read) < 500
    else:
        assert bool(read.tool_calls) != bool(read.final_answer)
        for call in read.tool_calls:
            (call.name + call.arguments_json).encode()
    # The model is asked again at most once, and then told of as any other fault.
    for size in (1, 7) if len(text) < 2000 else (1000,):
        try:
            asyncio.run(streamed(JsonProtocolProvider(Saying(text, text, size=size))))
        except ModelError as error:
            str(error).encode()


def test_arguments_of_any_depth_are_read_or_told_to_be_too_deep():
    for depth in (100, *range(900, 1010), 5000):
        text = '{"tool_calls": [{"name": "a", "arguments": {"x": ' + "[" * depth + "]" * depth + "}}]}"
        assert understood(text)
