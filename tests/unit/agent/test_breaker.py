"""The circuit breaker: opens on failures of one class, for as long as told, and lets one probe through."""

import copy
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from interlock.agent import circuit_breaker
from interlock.agent.circuit_breaker import (
    PROBE_LOST_SECONDS,
    PROBE_WAIT_SECONDS,
    CircuitBreakers,
    CircuitKey,
    NormalPermit,
    OpenCircuit,
    ProbePermit,
    model_circuit_open_error,
    tool_circuit_open_failure,
)
from interlock.agent.retries import TurnRetries
from interlock.core.errors import ErrorClass, ErrorCode
from interlock.log.task_events import CircuitClosed, CircuitHalfOpen, CircuitOpened
from interlock.models.provider import ModelFault
from interlock.tools.result import ToolResult
from tests.harness.task_limits import task_limits
from tests.unit.agent.controlled import DENIED, Clock, failed

KEY = CircuitKey(model="m")
SERVER, LIMITED = ModelFault.server.value, ModelFault.rate_limited.value


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breakers(clock) -> CircuitBreakers:
    return CircuitBreakers(task_limits(), clock)


def fail(breakers: CircuitBreakers, times: int, error_class: str = SERVER, key: CircuitKey = KEY) -> list:
    """So many requests, one after the other, and what the log was told."""
    return [event for _ in range(times) for event in breakers.failed(breakers.allows(key), error_class)]


def test_the_fifth_failure_opens_it_and_not_the_fourth(breakers):
    assert fail(breakers, 4) == []
    assert isinstance(breakers.allows(KEY), NormalPermit)
    assert fail(breakers, 1) == [CircuitOpened(error_class=SERVER, failures=5, seconds=30.0, model="m")]
    assert breakers.allows(KEY) == OpenCircuit(KEY, SERVER, 5, 30.0)


def test_a_success_between_begins_the_count_anew(breakers):
    fail(breakers, 4)
    assert breakers.succeeded(breakers.allows(KEY)) == ()
    assert fail(breakers, 4) == []
    assert len(fail(breakers, 1)) == 1


def test_classes_are_counted_apart_and_do_not_reset_one_another(breakers):
    for _ in range(4):
        assert fail(breakers, 1, SERVER) == []
        assert fail(breakers, 1, LIMITED) == []
    assert fail(breakers, 1, LIMITED) == [
        CircuitOpened(error_class=LIMITED, failures=5, seconds=30.0, model="m")
    ]


def test_keys_do_not_touch_one_another(breakers):
    fail(breakers, 5)
    assert isinstance(breakers.allows(CircuitKey(model="other")), NormalPermit)
    assert isinstance(breakers.allows(CircuitKey(session_id="s", tool_name="m")), NormalPermit)


def test_it_is_open_for_exactly_as_long_as_told(breakers, clock):
    fail(breakers, 5)
    clock.now += 29.5
    assert breakers.allows(KEY) == OpenCircuit(KEY, SERVER, 5, 0.5)
    clock.now += 0.5
    assert isinstance(breakers.allows(KEY), ProbePermit)


def test_one_probe_at_a_time_and_half_open_is_told_once(breakers, clock):
    fail(breakers, 5)
    clock.now += 30
    probe = breakers.allows(KEY)
    assert probe.events == (CircuitHalfOpen(error_class=SERVER, model="m"),)
    assert breakers.allows(KEY) == OpenCircuit(KEY, SERVER, 5, PROBE_WAIT_SECONDS)
    breakers.released(probe)
    assert breakers.allows(KEY).events == ()


def test_a_probe_that_succeeds_closes_it(breakers, clock):
    fail(breakers, 5)
    clock.now += 30
    assert breakers.succeeded(breakers.allows(KEY)) == (CircuitClosed(error_class=SERVER, model="m"),)
    assert fail(breakers, 4) == []


def test_a_probe_that_fails_opens_it_again_by_whatever_class(breakers, clock):
    fail(breakers, 5)
    clock.now += 30
    assert fail(breakers, 1, SERVER) == [
        CircuitOpened(error_class=SERVER, failures=6, seconds=30.0, model="m")
    ]
    clock.now += 30
    assert fail(breakers, 1, LIMITED) == [
        CircuitOpened(error_class=LIMITED, failures=1, seconds=30.0, model="m")
    ]
    clock.now += 29
    assert isinstance(breakers.allows(KEY), OpenCircuit)


def test_late_outcomes_change_nothing(breakers, clock):
    """Of requests that were under way when the circuit opened, and of those from before it closed again."""
    late = [breakers.allows(KEY) for _ in range(12)]
    fail(breakers, 5)
    clock.now += 10
    assert breakers.failed(late.pop(), SERVER) == ()
    assert breakers.succeeded(late.pop()) == ()
    assert breakers.allows(KEY).seconds_left == 20
    clock.now += 20
    probe = breakers.allows(KEY)
    assert breakers.failed(late.pop(), SERVER) == breakers.succeeded(late.pop()) == ()
    assert isinstance(breakers.allows(KEY), OpenCircuit)
    breakers.succeeded(probe)
    assert [breakers.failed(permit, SERVER) for permit in late] == [()] * 8
    assert isinstance(breakers.allows(KEY), NormalPermit)


def test_a_lost_probe_does_not_close_a_model_for_ever(breakers, clock):
    fail(breakers, 5)
    clock.now += 30
    lost = breakers.allows(KEY)
    clock.now += PROBE_LOST_SECONDS
    second = breakers.allows(KEY)
    assert isinstance(second, ProbePermit)
    assert breakers.succeeded(lost) == ()
    assert isinstance(breakers.allows(KEY), OpenCircuit)
    assert breakers.succeeded(second) != ()
    assert breakers.failed(lost, SERVER) == ()
    assert fail(breakers, 4) == []


@pytest.mark.parametrize("fault", [ModelFault.too_long, ModelFault.invalid_request])
def test_a_fault_of_the_request_says_nothing_about_the_model(breakers, clock, fault):
    assert fail(breakers, 20, fault) == []
    fail(breakers, 5)
    clock.now += 30
    assert breakers.failed(breakers.allows(KEY), fault) == ()
    assert isinstance(breakers.allows(KEY), ProbePermit)


def test_releasing_is_harmless_after_the_outcome(breakers, clock):
    fail(breakers, 5)
    clock.now += 30
    probe = breakers.allows(KEY)
    breakers.failed(probe, SERVER)
    breakers.released(probe)
    assert isinstance(breakers.allows(KEY), OpenCircuit)


def replace_failure(result: ToolResult, **changes: object) -> ToolResult:
    return replace(result, failure=replace(result.failure, **changes))


@pytest.mark.parametrize(
    ("result", "counts"),
    [
        (failed(ErrorCode.EXECUTION_ERROR), True),
        (failed(ErrorCode.EXECUTION_ERROR, error_class=ErrorClass.unknown), True),
        (failed(ErrorCode.TIMEOUT), True),
        # A test run that fails again and again is what the model works on, not a broken tool.
        (replace_failure(failed(ErrorCode.EXECUTION_ERROR), is_an_answer=True), False),
        (failed(ErrorCode.CANCELLED), False),
        (failed(ErrorCode.INTERRUPTED), False),
        (failed(ErrorCode.INVALID_ARGS), False),
        (failed(ErrorCode.TOOL_NOT_FOUND), False),
        (DENIED, False),
        (ToolResult(exit_code=1), False),
        (ToolResult(), False),
    ],
)
def test_what_counts_as_a_failing_tool(breakers, result, counts):
    key = CircuitKey(session_id="s", tool_name="write_file")
    events = [
        event for _ in range(5) for event in breakers.record_tool_result(breakers.allows(key), result)
    ]
    opened = CircuitOpened(error_class="tool_exec", failures=5, seconds=30.0, tool_name="write_file")
    assert events == ([opened] if counts else [])


def test_a_tool_that_works_again_closes_its_circuit(breakers, clock):
    key = CircuitKey(session_id="s", tool_name="bash")
    fail(breakers, 5, "tool_exec", key)
    clock.now += 30
    refused = breakers.allows(key)
    assert breakers.record_tool_result(refused, DENIED) == ()
    closed = breakers.record_tool_result(breakers.allows(key), ToolResult())
    assert closed == (CircuitClosed(error_class="tool_exec", tool_name="bash"),)


def test_one_sessions_failing_tool_is_not_anothers(breakers):
    fail(breakers, 5, "tool_exec", CircuitKey(session_id="a", tool_name="bash"))
    assert isinstance(breakers.allows(CircuitKey(session_id="b", tool_name="bash")), NormalPermit)


def test_what_stands_for_a_model_that_is_left_alone_is_waited_for(breakers, clock):
    fail(breakers, 5)
    clock.now += 10
    error = model_circuit_open_error("m", breakers.allows(KEY))
    assert str(error) == (
        "the model 'm' failed 5 times in a row (server); it is not called for another 20 seconds "
        "(CONTROL_CIRCUIT_SECONDS)"
    )
    assert TurnRetries(task_limits()).next_delay(error) == 20


def test_a_key_that_is_refused_is_not_waited_for(breakers):
    fail(breakers, 5, ModelFault.auth.value)
    error = model_circuit_open_error("m", breakers.allows(KEY))
    assert TurnRetries(task_limits()).next_delay(error) is None


def test_who_finds_a_model_left_alone_is_told_what_was_wrong_with_it(breakers):
    for number in range(5):
        breakers.failed(breakers.allows(KEY), "server", f"it failed ({500 + number})")
    error = model_circuit_open_error("m", breakers.allows(KEY))
    assert str(error).endswith("(CONTROL_CIRCUIT_SECONDS); last error: it failed (504)")


def test_a_tool_that_is_left_alone_says_so_the_same_each_time(breakers, clock):
    key = CircuitKey(session_id="s", tool_name="bash")
    fail(breakers, 5, "tool_exec", key)
    first = tool_circuit_open_failure("bash", "coding", breakers.allows(key))
    clock.now += 7
    assert tool_circuit_open_failure("bash", "coding", breakers.allows(key)) == first
    assert first.error_class is ErrorClass.tool_exec
    assert "bash failed 5 times in a row" in first.message


def test_how_long_nobody_may_try_is_told(breakers, clock):
    assert breakers.seconds_open(KEY) == 0
    fail(breakers, 5)
    clock.now += 12
    assert breakers.seconds_open(KEY) == 18
    # A person is told this number.
    clock.now += 0.0006
    assert breakers.seconds_open(KEY) == 18
    clock.now += 20
    assert breakers.seconds_open(KEY) == 0


def test_circuits_of_sessions_that_are_gone_are_forgotten_but_open_ones_never(breakers, monkeypatch):
    monkeypatch.setattr(circuit_breaker, "MAX_CIRCUITS", 10)
    fail(breakers, 5)
    for number in range(1000):
        fail(breakers, 1, "tool_exec", CircuitKey(session_id=str(number), tool_name="bash"))
    assert len(breakers._circuits) <= 11
    assert isinstance(breakers.allows(KEY), OpenCircuit)


class AnyBreaker(RuleBasedStateMachine):
    """Any number of tasks that ask, fail, succeed, are cancelled or are late, in any order and time."""

    permits = Bundle("permits")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.limits = task_limits(circuit_failures=3, circuit_seconds=10)
        self.breakers = CircuitBreakers(self.limits, self.clock)
        self.state = "closed"
        self.opened_at = 0.0
        self.probe: ProbePermit | None = None
        # What was allowed before the last change is old news.
        self.fresh: set[int] = set()
        self.failures: Counter[str] = Counter()

    @rule(seconds=st.sampled_from([0, 0.5, 1, 4, 9, 10, 11]))
    def time_passes(self, seconds):
        self.clock.now += seconds

    @rule(target=permits)
    def somebody_asks(self):
        given = self.breakers.allows(KEY)
        match given:
            case NormalPermit():
                assert self.state == "closed"
                self.fresh.add(given.number)
            case OpenCircuit(seconds_left=left):
                assert self.state != "closed"
                assert left > 0
                if self.state == "open":
                    assert self.clock.now + left == pytest.approx(self.opened_at + 10)
                else:
                    assert self.probe is not None
            case ProbePermit(events=events):
                assert self.state in {"open", "half open"}
                assert self.probe is None, "never two probes"
                assert self.clock.now >= self.opened_at + 10
                assert bool(events) == (self.state == "open")
                self.state, self.probe = "half open", given
        return given

    @rule(permit=consumes(permits), error_class=st.sampled_from([SERVER, LIMITED, ModelFault.too_long]))
    def somebody_fails(self, permit, error_class):
        if isinstance(permit, OpenCircuit):
            return
        events = self.breakers.failed(permit, error_class)
        mine = permit == self.probe
        if mine:
            self.probe = None
        if error_class == ModelFault.too_long:
            assert events == ()
        elif mine:
            assert len(events) == 1
        elif permit.number in self.fresh:
            self.failures[error_class] += 1
            assert bool(events) == (self.failures[error_class] == 3)
        else:
            assert events == ()
        if events:
            assert events[0].seconds == 10
            self.state, self.opened_at = "open", self.clock.now
            self.fresh.clear()

    @rule(permit=consumes(permits))
    def somebody_succeeds(self, permit):
        if isinstance(permit, OpenCircuit):
            return
        events = self.breakers.succeeded(permit)
        assert bool(events) == (permit == self.probe), "closes only by the success of its probe"
        if events:
            self.state, self.probe = "closed", None
        if events or permit.number in self.fresh:
            self.failures.clear()

    @rule(permit=consumes(permits))
    def somebody_is_cancelled(self, permit):
        if isinstance(permit, OpenCircuit):
            return
        self.breakers.released(permit)
        if permit == self.probe:
            self.probe = None

    @precondition(lambda self: self.state == "open")
    @invariant()
    def it_is_never_open_longer_than_told(self):
        """Asked of a copy: to ask is to take the probe."""
        later = copy.deepcopy(self.breakers)
        later._clock.now = max(self.clock.now, self.opened_at + 10)
        assert isinstance(later.allows(KEY), ProbePermit)


TestAnyBreaker = AnyBreaker.TestCase
