"""The point of no return: whoever was told to stop, or no longer holds the session, does not pass it."""

import pytest

from interlock.tools.threads import CallCancelled, CancelSignal


def test_it_is_passed_once_and_then_a_stop_comes_too_late():
    signal = CancelSignal()
    signal.begin_effect()
    signal.set()
    assert signal.took_effect
    with pytest.raises(CallCancelled):
        signal.check()


def test_who_was_told_to_stop_does_not_pass_it():
    signal = CancelSignal()
    signal.set()
    with pytest.raises(CallCancelled):
        signal.begin_effect()
    assert not signal.took_effect


def test_who_does_not_hold_the_session_any_more_does_not_pass_it():
    signal = CancelSignal(lambda: False)
    with pytest.raises(CallCancelled):
        signal.begin_effect()
    assert not signal.took_effect
