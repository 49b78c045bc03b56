"""Prometheus metrics of this process. Names and labels never contain what people write."""

from collections.abc import Callable, Mapping

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from interlock.log.stream_appender import AppendedEvent

PREFIX = "interlock"
CALL_OUTCOMES = {
    "tool_call.completed": "ok",
    "tool_call.failed": "failed",
    "tool_call.denied": "denied",
    "tool_call.interrupted": "failed",
}


class GatewayMetrics:
    """The metrics of one gateway, in a registry of its own: two in one process do not mix."""

    def __init__(self, methods: frozenset[str]) -> None:
        self._methods = methods
        self._registry = CollectorRegistry()
        self._requests = self._counter("requests", "Requests over sockets.", "method", "code")
        self._frames = self._counter("frames_sent", "Frames sent to sockets.")
        self._closed = self._counter("sockets_closed", "Sockets closed from this side.", "reason")
        self._logins = self._counter("logins", "Login codes received.", "outcome")
        self._turns = self._counter("turns", "Model turns of this process.")
        self._tokens = self._counter("tokens", "Tokens of these turns.", "direction")
        self._calls = self._counter("tool_calls", "Tool calls of this process.", "tool", "outcome")
        self._sockets = self._gauge("sockets", "Open sockets.")
        self._tasks = self._gauge("tasks", "Unfinished tasks in the store.", "status")
        self._events = self._gauge("events", "Events in the log.")
        # Too frequent for a counter with a lock; added to it when the metrics are read.
        self._sent = 0

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, namespace=PREFIX, registry=self._registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, namespace=PREFIX, registry=self._registry)

    def answered(self, method: str, code: str) -> None:
        # A client's unknown method name must not become a label.
        self._requests.labels(method if method in self._methods else "unknown", code).inc()

    def sent(self, frames: int) -> None:
        self._sent += frames

    def closed(self, reason: str) -> None:
        self._closed.labels(reason).inc()

    def login(self, outcome: str) -> None:
        self._logins.labels(outcome).inc()

    def count_event(self, event: AppendedEvent, name_of: Callable[[str], str]) -> None:
        """Count an event that this process has written."""
        if event.kind == "turn.completed":
            facts = orjson.loads(event.facts)
            self._turns.inc()
            self._tokens.labels("input").inc(facts["input_tokens"])
            self._tokens.labels("output").inc(facts["output_tokens"])
        elif (outcome := CALL_OUTCOMES.get(event.kind)) is not None:
            self._calls.labels(name_of(orjson.loads(event.facts)["tool_name"]), outcome).inc()

    def text(self, *, sockets: int, tasks: Mapping[str, int], events: int) -> bytes:
        self._frames.inc(self._sent)
        self._sent = 0
        self._sockets.set(sockets)
        self._tasks.clear()
        for status, count in tasks.items():
            self._tasks.labels(status).set(count)
        self._events.set(events)
        return generate_latest(self._registry)
