"""Model servers that never end, swell, contradict themselves or lie: each costs bounded time and memory."""

import asyncio
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest

from interlock.models import stream_accumulator
from interlock.models.provider import FinishReason, ModelError, ModelFault, ModelReply
from interlock.models.sse import MAX_EVENT_BYTES
from interlock.models.stream_accumulator import MAX_REPLY_BYTES, StreamAccumulator
from tests.harness.model_answers import (
    DONE,
    Delay,
    DropConnection,
    ModelAnswer,
    call_chunks,
    call_delta,
    called,
    chunk,
    event,
    json_answer,
    said,
    streamed,
    text_chunks,
    usage_chunk,
)
from tests.harness.model_server import ModelServer
from tests.integration.models.asking import asked, chat, failed, failure_of, reply_to

MEGABYTE = 1024 * 1024
PIECE = "word " * 13_000


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    """What is allocated meanwhile, the server's own pieces included, which are few and the same."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < megabytes * MEGABYTE, f"{peak / MEGABYTE:.0f} MB"


# -- what has no end --


@pytest.mark.parametrize(
    "delta",
    [
        {"content": PIECE},
        {"reasoning_content": PIECE},
        {"reasoning": PIECE, "content": None},
        {"tool_calls": [call_delta(0, name="bash", arguments=PIECE, call_id="a")]},
        {"tool_calls": [call_delta(None, name="bash", arguments=PIECE)]},
        {"unknown": {"deeply": [PIECE]}},
    ],
    ids=["text", "thoughts", "reasoning", "arguments", "unnumbered-arguments", "unknown"],
)
async def test_a_stream_without_end_is_given_up_and_hung_up_on(delta):
    piece = event(chunk(delta))
    endless = ModelAnswer((piece,) * (2 * MAX_REPLY_BYTES // len(piece)), ends=False)
    async with ModelServer([endless]) as server:
        provider = chat(server)
        with at_most(4 * MAX_REPLY_BYTES // MEGABYTE):
            error = await failed(provider)
        assert (error.fault, str(error)) == (
            ModelFault.protocol,
            "the model's response exceeds the size limit",
        )
        await asyncio.wait_for(server.hung_up.wait(), 30)
        await provider.close()


async def test_a_line_without_end_is_given_up_and_hung_up_on():
    endless = ModelAnswer((b"data: ", *(b"x" * 65_536,) * (4 * MAX_EVENT_BYTES // 65_536)), ends=False)
    async with ModelServer([endless]) as server:
        provider = chat(server)
        with at_most(6 * MAX_EVENT_BYTES // MEGABYTE):
            error = await failed(provider)
        assert str(error) == "the model's server sent a chunk that is too long"
        await asyncio.wait_for(server.hung_up.wait(), 30)
        await provider.close()


@pytest.mark.parametrize("beginning", [b"data: ", b'{"choices": "'], ids=["stream", "whole"])
async def test_a_packed_bomb_is_unpacked_no_further_than_a_bound(beginning):
    """A gigabyte of zeros in a megabyte: one block of them, again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(beginning) + packer.flush(zlib.Z_FULL_FLUSH)
    zeros = packer.compress(b"0" * (8 * MEGABYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = head + zeros * 128
    pieces = tuple(packed[at : at + 65_536] for at in range(0, len(packed), 65_536))
    with at_most(160):
        error = await failure_of(ModelAnswer(pieces, headers={"Content-Encoding": "gzip"}))
    assert error.fault is ModelFault.protocol


def test_endless_pieces_of_one_call_cost_as_much_as_they_are_long():
    """Whoever asks after each piece whether the whole has ended looks at all of it each time."""

    def seconds(pieces: int) -> float:
        piece = orjson.dumps(chunk({"tool_calls": [call_delta(None, name="bash", arguments="{x}" * 40)]}))
        began = time.process_time()
        assembly = StreamAccumulator()
        for _ in range(pieces):
            assembly.add(piece)
        return time.process_time() - began

    assert seconds(40_000) < 20 * max(seconds(4_000), 0.02)


def test_a_name_without_end_is_given_up():
    assembly = StreamAccumulator()
    with pytest.raises(ModelError, match="a name that is too long"):
        for number in range(1_000):
            assembly.add(orjson.dumps(chunk({"tool_calls": [call_delta(0, name="ab"[number % 2] * 9)]})))


# -- what is slow --


async def test_a_byte_now_and_then_is_an_answer_in_the_end():
    data = b"".join(said("Hello").steps)
    slow = ModelAnswer(tuple(step for byte in data for step in (bytes([byte]), Delay(0.001))))
    assert (await reply_to(slow, idle_seconds=5)).text == "Hello"


async def test_a_byte_now_and_then_without_end_is_ended_by_whoever_waits():
    """The task's time is the bound: it cancels, and the server sees it."""
    async with ModelServer([ModelAnswer((event(chunk({"content": "on"})),) * 3, ends=False)]) as server:
        provider = chat(server, idle_seconds=60)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await failed(provider)
        await asyncio.wait_for(server.hung_up.wait(), 30)
        await provider.close()


# -- what is cut off --


async def test_a_connection_that_breaks_anywhere_gives_the_answer_or_an_error():
    whole = called(("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
    right = [("read_file", '{"path":"a.txt"}'), ("read_file", '{"path":"b.txt"}')]
    faults: list[ModelFault] = []
    for harness in range(len(whole.steps) + 1):
        async with ModelServer([ModelAnswer((*whole.steps[:harness], DropConnection()))]) as server:
            provider = chat(server)
            try:
                reply = await _reply(provider)
            except ModelError as error:
                faults.append(error.fault)
            else:
                assert calls_of(reply) == right
                assert harness > len(whole.steps) - 3, "it was taken for whole before its end"
            await provider.close()
    assert len(faults) >= len(whole.steps) - 2
    assert set(faults) <= {ModelFault.network, ModelFault.protocol}


async def _reply(provider) -> ModelReply:
    return (await asked(provider))[1]


# -- what contradicts itself --


def calls_of(reply: ModelReply) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in reply.tool_calls]


async def test_two_answers_in_turns_are_not_mixed():
    both = [
        {"choices": [{"index": number % 2, "delta": {"content": f"{'ab'[number % 2]}{number // 2} "}}]}
        for number in range(8)
    ]
    assert (await reply_to(streamed(both))).text == "a0 a1 a2 a3 "


async def test_what_follows_the_end_is_no_part_of_the_answer():
    first, second = said("The first."), said("The second.")
    reply = await reply_to(ModelAnswer((*first.steps, *second.steps)))
    assert reply.text == "The first."


async def test_a_connection_on_which_more_follows_is_not_used_for_the_next_question():
    """What a server sends unasked must not become the answer to something else."""
    async with ModelServer([said("One.").then(*said("Unasked.").steps), said("Two.")]) as server:
        provider = chat(server)
        assert (await _reply(provider)).text == "One."
        assert (await _reply(provider)).text == "Two."
        await provider.close()


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        (
            [
                call_delta(0, name="a", arguments="{}", call_id="x"),
                call_delta(0, arguments="", call_id="y"),
            ],
            [("a", "{}")],
        ),
        (
            [call_delta(0, name="a", arguments="{}", call_id="x")] * 1
            + [call_delta(1, name="b", arguments="{}", call_id="x")],
            [("a", "{}"), ("b", "{}")],
        ),
        (
            [call_delta(7, name="b", arguments="{}"), call_delta(-1, name="a", arguments="{}")],
            [("a", "{}"), ("b", "{}")],
        ),
    ],
    ids=["id-changes", "same-id-twice", "odd-indexes"],
)
async def test_calls_keep_ids_of_their_own_whatever_the_server_does(deltas, expected):
    reply = await reply_to(streamed(call_chunks(*deltas), finish="tool_calls"))
    assert calls_of(reply) == expected
    ids = [call.call_id for call in reply.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)


async def test_calls_that_are_announced_and_do_not_come_are_an_answer_of_words_or_none():
    reply = await reply_to(streamed(text_chunks(["I will."]), finish="tool_calls"))
    assert (reply.text, reply.finish_reason) == ("I will.", FinishReason.stop)
    error = await failure_of(streamed([chunk({"role": "assistant"})], finish="tool_calls"))
    assert str(error) == "the model's response is empty"


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5, "completion_tokens": 7},
        {"prompt_tokens": 2**63, "completion_tokens": 7},
        b'{"prompt_tokens": 1, "completion_tokens": 1000000000000000000000000000000}',
        {"prompt_tokens": "many", "completion_tokens": 7},
        {"prompt_tokens": 1.5, "completion_tokens": True},
        [1, 2],
        "lots",
    ],
)
async def test_usage_that_cannot_be_is_no_usage(usage):
    told = usage if isinstance(usage, bytes) else orjson.dumps(usage)
    answer = ModelAnswer((*said("Hello").steps[:-2], event(b'{"choices": [], "usage": %b}' % told), DONE))
    reply = await reply_to(answer)
    assert (reply.text, reply.usage) == ("Hello", None)


async def test_usage_that_is_great_and_possible_is_believed():
    most = stream_accumulator._MAX_TOKENS
    answer = ModelAnswer((*said("Hello").steps[:-2], event(usage_chunk(most, most)), DONE))
    usage = (await reply_to(answer)).usage
    assert usage is not None
    assert usage.input_tokens == most


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"error": {"message": "no capacity"}}, "the model's server aborted the response: no capacity"),
        ({"error": "no capacity"}, "the model's server aborted the response: no capacity"),
        ({"detail": "not found"}, "the model's response"),
        ({}, "the model's response"),
    ],
)
async def test_an_error_that_calls_itself_a_success_is_an_error(document, sentence):
    error = await failure_of(json_answer(document))
    assert sentence in str(error)
    assert "\n" not in str(error)
