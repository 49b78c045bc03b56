"""Requests of every method over real sockets, right and wrong and many at once: each is answered once."""

import json
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from websockets.sync.client import ClientConnection, connect

from interlock.gateway.methods import ALL
from tests.fuzz.conftest import Target
from tests.fuzz.declared import CODES, Json, must_answer, must_fit, params
from tests.fuzz.odd import ANYTHING, BITS, spoiled, torn, written

PATIENCE = 60.0
# What makes this socket follow a session anew, from another number on.
FOLLOWING = {
    "session.subscribe",
    "session.unsubscribe",
    "chat.send",
    "tasks.retry",
    "ask_user.answer",
    "ask_user.build",
}
ANY = ""
METHODS = st.sampled_from(sorted(ALL))
IDS = ("session_id", "task_id", "run_id", "question_id")


class Socket:
    """One client. What it asked and was not answered is `open`; what came is checked as it comes."""

    def __init__(self, target: Target) -> None:
        given = {"Authorization": f"Bearer {target.token}"}
        self._held = ExitStack()
        opening = connect(target.socket_url, additional_headers=given, max_size=None, compression=None)
        self.socket: ClientConnection = self._held.enter_context(opening)
        self.open: dict[str, str] = {}
        self.unread = 0
        self.answered: Counter[str] = Counter()
        self.said: dict[str, Json] = {}
        self._numbers: dict[str, int] = {}
        self._anew: Counter[str] = Counter()

    def ask(self, identity: str, method: str, given: Any) -> None:
        self.open[identity] = method
        if method in FOLLOWING and isinstance(given, dict):
            # By the question or the task it may be any session.
            named = given.get("session_id")
            self._anew[named if isinstance(named, str) else ANY] += 1
        self.socket.send(
            written({"type": "request", "id": identity, "method": method, "params": given}).decode()
        )

    def close(self) -> None:
        self._held.close()

    def say(self, data: bytes | str) -> None:
        """No request: one error, which may name no id."""
        self.unread += 1
        self.socket.send(data)

    def settle(self) -> None:
        """Until everything is answered; then once more, so that nothing comes twice."""
        end = time.monotonic() + PATIENCE
        while self.open or self.unread > 0:
            left = end - time.monotonic()
            assert left > 0, f"no answer to {self.open}, {self.unread} unread"
            self._take(json.loads(self.socket.recv(timeout=left)))
        assert max(self.answered.values(), default=1) == 1

    def _take(self, frame: Json) -> None:
        must_fit(frame)
        self._count(frame)
        ends_task = "task_id" in frame["data"] and frame["type"] == "error"
        if frame["type"] not in {"response", "error"} or ends_task:
            return
        identity = frame["id"]
        if identity in self.open:
            self.answered[identity] += 1
            method = self.open.pop(identity)
            if frame["type"] == "response":
                must_answer(method, frame["data"])
                self.said[identity] = frame["data"]
        else:
            assert frame["type"] == "error", f"nobody asked for {frame}"
            assert identity not in self.answered, f"answered twice: {frame}"
            self.unread -= 1

    def _count(self, frame: Json) -> None:
        session_id, seq = frame["session_id"], frame["seq"]
        if seq is None:
            return
        before = self._numbers.get(session_id)
        if before is not None and seq != before + 1:
            # Each such request is good for one new beginning.
            asked = session_id if self._anew[session_id] else ANY
            assert self._anew[asked] > 0, f"after {before} comes {seq} of {session_id}"
            self._anew[asked] -= 1
        self._numbers[session_id] = seq


@st.composite
def requests(draw: st.DrawFn, method: str, known: dict[str, list[str]]) -> Any:
    """Often right, often nearly right, and about what is there."""
    given = draw(params(method))
    for name in IDS:
        if name in given and known.get(name) and draw(st.integers(0, 4)):
            given[name] = draw(st.sampled_from(known[name]))
    if "mode" in given and draw(st.booleans()):
        given["mode"] = draw(st.sampled_from(["chat", "plan", "coding", "chat_safe", "build"]))
    return draw(spoiled(given)) if draw(st.integers(0, 2)) == 0 else given


class Talking(RuleBasedStateMachine):
    """Two who ask anything, and one who looks on and is not to notice. `target` is set by the test."""

    target: Target

    @initialize()
    def come(self) -> None:
        self.number = 0
        self.sockets = [Socket(self.target), Socket(self.target)]
        self.onlooker = Socket(self.target)
        self.known: dict[str, list[str]] = {}
        self._make_session()

    def _next(self) -> str:
        self.number += 1
        return f"r{self.number}"

    def _make_session(self) -> None:
        identity, socket = self._next(), self.sockets[0]
        socket.ask(identity, "session.create", {"title": "fuzz"})
        socket.settle()
        session_id = socket.said[identity]["session"]["id"]
        self.known.setdefault("session_id", []).append(session_id)
        self.onlooker.ask(identity, "session.subscribe", {"session_id": session_id})
        self.onlooker.settle()

    @rule(which=st.integers(0, 1), methods=st.lists(METHODS, min_size=1, max_size=8), data=st.data())
    def ask_many(self, which: int, methods: list[str], data: st.DataObject) -> None:
        for method in methods:
            given = data.draw(requests(method, self.known))
            text = written({"type": "request", "id": "x", "method": method, "params": given})
            if _is_request(text):
                self.sockets[which].ask(self._next(), method, given)
            else:
                self.sockets[which].say(text.decode("utf-8", "replace"))

    @rule(
        which=st.integers(0, 1),
        text=st.sampled_from(["hello", "go on", "read notes.txt", "/x", "\x00é"]),
    )
    def talk(self, which: int, text: str) -> None:
        given = {"session_id": self.known["session_id"][-1], "content": text}
        self.sockets[which].ask(self._next(), "chat.send", given)

    @rule(which=st.integers(0, 1), data=st.one_of(st.sampled_from(BITS), ANYTHING.map(written)))
    def say_what_is_no_request(self, which: int, data: bytes) -> None:
        self.sockets[which].say(data)

    @rule(which=st.integers(0, 1), data=torn(b'{"type": "request", "id": 1.5, "method": "server.info"}'))
    def say_what_is_nearly_one(self, which: int, data: bytes) -> None:
        if not _is_request(data):
            self.sockets[which].say(data)

    @rule(which=st.integers(0, 1))
    def settle(self, which: int) -> None:
        socket = self.sockets[which]
        socket.settle()
        for said in socket.said.values():
            for kind in ("task", "run", "question"):
                if isinstance(found := said.get(kind), dict):
                    name = "run_id" if kind == "run" else f"{kind}_id"
                    self.known.setdefault(name, []).append(str(found.get("id") or found.get("run_id")))
        socket.said.clear()

    @rule(which=st.integers(0, 1))
    def go_and_come_back(self, which: int) -> None:
        """In the middle of whatever is under way."""
        self.sockets[which].close()
        self.sockets[which] = Socket(self.target)
        if which == 0:
            self._make_session()

    @invariant()
    def nobody_else_is_disturbed(self) -> None:
        if hasattr(self, "onlooker"):
            identity = self._next()
            self.onlooker.ask(identity, "server.info", {})
            self.onlooker.settle()

    def teardown(self) -> None:
        if hasattr(self, "sockets"):
            for socket in (*self.sockets, self.onlooker):
                socket.settle()
            identity = self._next()
            self.onlooker.ask(identity, "events.verify", {})
            self.onlooker.settle()
            assert self.onlooker.said.get(identity, {"ok": True})["ok"]
            for socket in (*self.sockets, self.onlooker):
                socket.close()
        self.target.must_be_well()


def _is_request(text: bytes) -> bool:
    """Whether the server will find an id in it that it can answer to."""
    from interlock.gateway.protocol import RequestError, parse_request

    try:
        parse_request(text)
    except RequestError as error:
        return error.request_id is not None
    return True


EXAMPLES, STEPS = (2, 12) if settings.default.max_examples <= 100 else (150, 30)
MANY = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    # Each step waits for a server: what fails is told as it is.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_every_request_is_answered_once_whatever_else_is_said(target):
    Talking.target = target
    run_state_machine_as_test(Talking, settings=MANY)


def test_the_page_tells_of_the_codes_about_agents(target):
    """Each was sent before the page told of it."""
    asking = Socket(target)
    asking.ask("1", "session.create", {"agent": "^`"})
    asking.settle()
    asking.close()
    assert {"AGENT_NOT_FOUND", "AGENT_INVALID", "AGENT_CHANGED"} <= CODES


# The client's own thread may use `random` while something is drawn.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.full
def test_the_same_for_very_long(target):
    Talking.target = target
    run_state_machine_as_test(Talking, settings=settings(MANY, max_examples=40, stateful_step_count=200))
