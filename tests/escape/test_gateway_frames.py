"""Attacks by what stands in a frame: whatever it is, it gets one answer, and nobody else notices."""

import asyncio
import functools
import json
import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from interlock.gateway.methods import ALL
from tests.escape.gateway_attacker import BINARY, Wire, asking, closes_in, frame, get
from tests.harness.gateway import RequestRefused

FAST = {"GATEWAY_REQUESTS_PER_SECOND": "100000"}
TRIES = 40


async def told(wire: Wire, number: int) -> list[dict[str, Any]]:
    """So many frames, decoded."""
    frames = []
    async with asyncio.timeout(10):
        for _ in range(number):
            first, length = await wire.reader.readexactly(2)
            assert first == 0x81, "a text frame in one piece"
            if length >= 126:
                length = int.from_bytes(await wire.reader.readexactly(2 if length == 126 else 8))
            frames.append(json.loads(await wire.reader.readexactly(length)))
    return frames


NO_REQUESTS = (
    "", " ", "\x00", "{", "}", "[]", "null", "true", "7", '"request"', "[" * 100_000, '{"a":' * 100_000,
    "[" * 1000 + "]" * 1000, "[" * 260 + "]" * 260,
    '{"type": "request", "id": 1, "method": "server.info", "params": NaN}',
    '{"type": "request", "id": Infinity, "method": "server.info"}',
    '{"type": "request", "id": 1, "method": "server.info", "params": {"x": 1e999}}',
    '{"type": "request", "id": "\\ud800", "method": "server.info"}',
    '{"type": "request", "id": 1, "method": "\\udfff", "params": {}}',
    '{"type": "response", "id": 1, "method": "server.info"}', '{"id": 1, "method": "server.info"}',
    '{"type": "request", "id": 1}', '{"type": "request", "id": 1, "method": null}',
    '{"type": "request", "id": 1, "method": ["server.info"]}', '<?xml version="1.0"?>', "GET / HTTP/1.1",
    '{"type": "request", "method": "x", "params": ' + "[" * 300 + "]" * 300 + "}",
)  # fmt: skip

ODD_IDS = (True, False, 1.5, -0.0, 1e300, 10**40, [], {}, ["1"], {"a": 1}, "x" * 129, "x" * 100_000)


async def test_what_is_no_request_gets_an_error_and_the_socket_stays(harness):
    wire = await Wire.socket(harness.port, await harness.token())
    for text in NO_REQUESTS:
        await wire.send(frame(text))
        [answer] = await told(wire, 1)
        assert (answer["type"], answer["data"]["code"]) == ("error", "PARSE_ERROR"), text[:80]
        assert "Traceback" not in answer["data"]["message"]
    for odd in ODD_IDS:
        await wire.send(asking("server.info", odd))
        [answer] = await told(wire, 1)
        assert (answer["id"], answer["data"]["code"]) == (None, "PARSE_ERROR"), odd
    await wire.send(asking("server.info", "still here"))
    assert (await told(wire, 1))[0]["data"]["who"] == "tester"
    await wire.close()


async def test_every_id_that_may_be_one_comes_back_as_it_was(harness):
    wire = await Wire.socket(harness.port, await harness.token())
    ids = [
        "",
        "a",
        "\x00",
        '"',
        "\\",
        "\u2028<script>",
        "\U0001f600" * 128,
        0,
        -1,
        2**63,
        -(2**63),
        2**64 - 1,
    ]
    for identity in ids:
        await wire.send(asking("nothing.of.the.kind", identity))
        [answer] = await told(wire, 1)
        assert (answer["id"], answer["data"]["code"]) == (identity, "METHOD_NOT_FOUND")
    await wire.close()


async def test_binary_frames_are_read_as_text_or_refused(harness):
    wire = await Wire.socket(harness.port, await harness.token())
    await wire.send(frame(asking("server.info", 7)[6:], BINARY))
    await wire.send(frame(b"\xff\xfe\x00\x01" * 100, BINARY))
    answers = await told(wire, 2)
    assert {answer["data"].get("code") for answer in answers} <= {None, "PARSE_ERROR"}
    # Text that is none ends the socket, as the protocol of sockets has it.
    await wire.send(frame(b"\xff\xfe"))
    assert closes_in(await wire.rest()) == [1007]
    await wire.close()


async def test_methods_that_are_not_there_say_so(harness):
    client = await harness.connect()
    names = ("", "x", "__class__", "session.set_mode", "server.info ", "SERVER.INFO", "session", "a" * 5000)
    for name in (*names, "../server.info", "__init__", "chat.send\x00"):
        with pytest.raises(RequestRefused) as refused:
            await client.ask(name, session_id="s_1", mode="coding")
        assert refused.value.code == "METHOD_NOT_FOUND", name
        assert len(refused.value.message) < 200
    assert "session.set_mode" not in (await client.ask("server.info"))["methods"]


# -- what fits no method -----------------------------------------------------------------------------

NUMBERS = (0, 1, -1, 50, 2**31, 2**53, 2**62, 2**63, 2**64 - 1, -(2**63), 10**30, 0.5, -1e308)
WORDS = (
    "",
    "\x00",
    "coding",
    "system",
    "../x",
    "t_00112233445566aa",
    "'; --",
    "%",
    "x" * 300,
    "read_file",
    "*",
)
ODD = ("\U0001f600" * 40, "e\u0301" * 30, "\u202e", "[" * 500, "queued", '"', "s_1\r\n", "\ufffe", "a\x00b")
TEXTS = st.one_of(st.text(max_size=30), st.sampled_from(WORDS + ODD))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
PARTS = ("fs", "shell", "mcp", "memory", "image", "max_timeout_seconds", "denied_tools")


@functools.cache
def values() -> list[Any]:
    """Made once: the same each time, unless the profile says otherwise."""
    found: list[Any] = [*NUMBERS, *WORDS, *ODD, None, True, [], {}]

    @hypothesis.settings(
        max_examples=300, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(VALUES)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


class Making:
    """Params of the right names mostly, and often of the right kind: that leads furthest in."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known
        self._random = random.Random(7)

    def params(self, method: str) -> dict[str, Any]:
        chance, made = self._random.random, {}
        for name in ALL[method].params.model_fields:
            if chance() < 0.85:
                made[name] = self._value(name)
        if chance() < 0.1:
            made[str(self._any())] = self._any()
        return made

    def _value(self, name: str) -> Any:
        if name in self._known and self._random.random() < 0.6:
            return self._known[name]
        if name == "patch" and self._random.random() < 0.8:
            return {"tools": {self._random.choice(PARTS): self._any()}}
        if name in {"patch", "arguments", "answer"} and self._random.random() < 0.5:
            return self._random.choice([nested(240), {"path": self._any()}, {"path": "x" * 5000}])
        return self._any()

    def _any(self) -> Any:
        return self._random.choice(values())


async def test_every_method_takes_anything_and_answers_once(open_harness, store_config):
    harness = await open_harness(DATABASE_URL=store_config.url, SESSION_OPEN_MODES="chat,coding", **FAST)
    client = await harness.connect()
    session = (await client.ask("session.create", title="t"))["session"]["id"]
    task = (await client.ask("chat.send", session_id=session, content="go"))["task"]["id"]
    known = {"session_id": session, "task_id": task, "mode": "coding", "tool_name": "read_file"}
    known |= {"content": "hello", "title": "t", "query": "hello", "question_id": "q_1"}
    making = Making(known)
    # Last, because nothing is left of it then.
    for method in sorted(harness.gateway.dispatcher.methods, key=lambda name: name == "session.delete"):
        await answers_each(harness, method, [making.params(method) for _ in range(TRIES)])
    assert (await client.ask("events.verify"))["ok"]
    assert client.socket.close_code is None


async def test_what_a_store_cannot_hold_is_the_fault_of_the_request(open_harness, store_config):
    """In every text that any method takes."""
    harness = await open_harness(DATABASE_URL=store_config.url, SESSION_OPEN_MODES="chat,coding", **FAST)
    client = await harness.connect()
    session = (await client.ask("session.create", title="t"))["session"]["id"]
    known = {"session_id": session, "content": "hello", "title": "t", "query": "x", "mode": "chat"}
    known |= {"task_id": "t_1", "question_id": "q_1", "tool_name": "bash", "patch": {}, "answer": {}}
    for method, declared in ALL.items():
        if not (names := list(declared.params.model_fields)):
            continue
        usual = {name: known[name] for name in names if name in known}
        bad: list[Any] = [
            "\x00",
            "a\x00b",
            ["\x00"],
            {"\x00": "\x00"},
            {"tools": {"denied_tools": ["\x00"]}},
        ]
        await answers_each(harness, method, [usual | {name: value} for name in names for value in bad])
    for name in ("s_1%00", "%00"):
        given = {"Authorization": f"Bearer {await harness.token(f'of-{len(name)}')}"}
        for target in (f"/export/session/{name}.jsonl", f"/export/events.jsonl?session_id={name}"):
            assert (await get(harness.port, target, given))[0] in {400, 404}


async def answers_each(harness, method: str, tried: list[dict[str, Any]]) -> None:
    client = await harness.connect()
    sent = {await client.send(method, **params): params for params in tried}

    def answers() -> list[dict[str, Any]]:
        said = [each for each in client.frames if each["type"] in {"response", "error"}]
        return [each for each in said if each["id"] in sent and "task_id" not in each["data"]]

    await client.until(lambda _frame: len(answers()) >= len(sent))
    # Whatever was sent is answered by now, and not again.
    await client.ask("server.info")
    assert sorted(each["id"] for each in answers()) == sorted(sent), method
    for answer in answers():
        told = answer["data"]
        assert told.get("code") != "INTERNAL_ERROR", (method, sent[answer["id"]])
        assert "Traceback" not in told.get("message", ""), told
        assert len(told.get("message", "")) < 5000
    await client.close()
