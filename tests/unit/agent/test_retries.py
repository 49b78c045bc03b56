"""Asking again: only what may pass, only while nothing was shown, never sooner than the server asks."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agent.retries import TurnRetries
from interlock.config.limits import TaskLimitSettings
from interlock.log.task_events import RetryExhausted, RetryScheduled
from interlock.models.provider import ModelError, ModelFault
from tests.harness.task_limits import task_limits

PASSING = [fault for fault in ModelFault if fault.is_transient]
LASTING = [fault for fault in ModelFault if not fault.is_transient]


def fault(kind: ModelFault = ModelFault.server, after: float | None = None) -> ModelError:
    return ModelError(kind, "it failed", retry_after_seconds=after)


def delays(limits: TaskLimitSettings, error: ModelError) -> list[float]:
    retries = TurnRetries(limits)
    found = []
    while (delay := retries.next_delay(error)) is not None:
        found.append(delay)
    return found


def test_the_waits_double_up_to_thirty_seconds():
    assert delays(task_limits(), fault()) == [1, 2, 4, 8, 16]
    assert delays(task_limits(max_retries=7), fault()) == [1, 2, 4, 8, 16, 30, 30]


def test_no_retries_means_none():
    assert delays(task_limits(max_retries=0), fault()) == []


@pytest.mark.parametrize("kind", LASTING)
def test_what_cannot_pass_is_not_asked_again(kind):
    assert delays(task_limits(), fault(kind)) == []
    assert delays(task_limits(), fault(kind, after=1)) == []


def test_a_server_that_asks_for_more_gets_more_and_for_less_does_not():
    retries = TurnRetries(task_limits())
    assert retries.next_delay(fault(after=0)) == 1
    assert retries.next_delay(fault(after=2.5)) == 2.5
    assert retries.next_delay(fault(after=3)) == 4
    assert retries.next_delay(fault(after=120)) == 120
    assert retries.next_delay(fault()) == 16


@pytest.mark.parametrize("after", [120.001, 3600.0, math.inf])
def test_a_server_that_asks_for_too_much_is_not_asked_too_soon_but_not_at_all(after):
    retries = TurnRetries(task_limits())
    assert retries.next_delay(fault(after=after)) is None
    assert retries.exhausted(fault()).attempts == 1


@pytest.mark.parametrize("after", [math.nan, -1.0, -math.inf])
def test_a_wish_that_is_none_is_passed_over(after):
    assert TurnRetries(task_limits()).next_delay(fault(after=after)) == 1


def test_both_are_told_to_the_log():
    retries = TurnRetries(task_limits(max_retries=1))
    delay = retries.next_delay(fault())
    assert retries.scheduled(fault(), delay) == RetryScheduled(
        attempt=1, delay_seconds=1, error_class="server", error="it failed"
    )
    assert retries.next_delay(fault(ModelFault.timeout)) is None
    assert retries.exhausted(fault(ModelFault.timeout)) == RetryExhausted(
        attempts=2, error_class="timeout", error="it failed"
    )


some_limits = st.builds(
    lambda first, more, after, most: TaskLimitSettings(
        retry_seconds=first, max_retry_seconds=first + more, max_retry_after_seconds=after, max_retries=most
    ),
    st.floats(0.01, 100),
    st.floats(0, 1000),
    st.floats(0.01, 1000),
    st.integers(0, 30),
)
some_wish = st.none() | st.floats(0, 2000) | st.just(math.inf)


@given(some_limits, st.lists(st.tuples(st.sampled_from(PASSING), some_wish), max_size=40))
def test_no_wait_is_shorter_than_asked_nor_longer_than_allowed(limits, errors):
    retries = TurnRetries(limits)
    made = 0
    for kind, wish in errors:
        delay = retries.next_delay(fault(kind, wish))
        if delay is None:
            assert made == limits.max_retries or (wish or 0) > limits.max_retry_after_seconds
            continue
        made += 1
        assert limits.retry_seconds <= delay
        assert delay <= max(limits.max_retry_seconds, limits.max_retry_after_seconds)
        assert wish is None or delay >= wish
    assert made <= limits.max_retries


@given(some_limits, st.floats(0, 2000), st.floats(0, 2000))
def test_the_waits_grow_and_a_greater_wish_is_never_a_shorter_wait(limits, one, other):
    plain = delays(limits, fault())
    assert plain == sorted(plain)
    assert len(plain) == limits.max_retries
    less, more = (delays(limits, fault(after=wish)) for wish in sorted((one, other)))
    assert all(a <= b for a, b in zip(less, more, strict=False))
