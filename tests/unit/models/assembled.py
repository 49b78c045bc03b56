"""One reply, from the chunks of a stream."""

import orjson

from interlock.models.provider import ModelReply
from interlock.models.stream_accumulator import StreamAccumulator
from tests.harness.model_answers import call_chunks, chunk


def assembled(*chunks, finish: str | None = "stop") -> ModelReply:
    assembly = StreamAccumulator()
    ends = () if finish is None else (chunk(finish=finish),)
    shown = "".join(assembly.add(orjson.dumps(item)) for item in (*chunks, *ends))
    reply = assembly.reply()
    assert shown == reply.text
    return reply


def calls_of(*deltas) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in assembled(*call_chunks(*deltas)).tool_calls]
