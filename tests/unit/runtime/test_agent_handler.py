"""The agent as a handler of tasks: when the handler has ended, so has the agent's work."""

import asyncio
import gc

import pytest

from interlock.runtime.agent_handler import AgentHandler
from interlock.runtime.bus import Bus
from interlock.runtime.live_stream import LiveStream
from interlock.runtime.task_attempt import LeaseLost
from interlock.runtime.task_handler import FailedOutcome
from tests.unit.runtime.test_run_handler import Trial


class SlowToEnd:
    """Work that takes its time to end, however often it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_end, self.has_ended = asyncio.Event(), False
        self._error = error

    async def handle_message(self, *_given):
        try:
            await asyncio.Event().wait()
            yield
        finally:
            while not self.may_end.is_set():
                try:
                    await self.may_end.wait()
                except asyncio.CancelledError:
                    continue
            self.has_ended = True
            if self._error is not None:
                raise self._error


@pytest.mark.parametrize("how", ["cancel", "hurry", "lose"])
async def test_an_attempt_does_not_end_before_the_agents_work(how):
    agent = SlowToEnd()
    trial = Trial(AgentHandler(agent, LiveStream(Bus()), None, None).handle, cancel_grace=0.01)
    asyncio.get_running_loop().call_later(0.1, agent.may_end.set)
    end = await trial.end(getattr(trial, how))
    assert agent.has_ended
    assert isinstance(end, LeaseLost if how == "lose" else FailedOutcome)


async def test_what_goes_wrong_while_it_is_being_cancelled_is_not_told_by_the_garbage_collector():
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unheard.append(context))
    agent = SlowToEnd(OSError("the disk is full"))
    agent.may_end.set()
    trial = Trial(AgentHandler(agent, LiveStream(Bus()), None, None).handle)
    assert await trial.end(trial.cancel) == FailedOutcome("it was cancelled")
    gc.collect()
    assert unheard == []
