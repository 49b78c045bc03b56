"""A session that goes away under its agent: the work ends with one error, and nothing is left unheard."""

import asyncio
import gc
from collections.abc import AsyncGenerator

import pytest

from interlock.core.errors import SessionNotFound
from interlock.models.provider import (
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    RequestedCall,
)
from interlock.wiring.agents import open_agent_runtime
from tests.harness.agent_loop import LoopHarness


class ErasesItsSession:
    """A model in the middle of whose answer an operator erases the session; no worker holds it."""

    name = "erasing"

    def __init__(self, harness: LoopHarness, session_id: str, *calls: RequestedCall) -> None:
        self._desk = harness
        self._session_id = session_id
        self._calls = calls

    async def stream(self, _request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        yield ModelTextDelta("Let ")
        runtime = self._desk.runtime
        await open_agent_runtime(runtime).tasks.delete_session(self._session_id, who="test")
        await runtime.eraser.erase(self._session_id, who="test")
        yield ModelReply("Let me see.", self._calls)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_a_session_that_is_erased_ends_the_work_with_one_error(harness, count):
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unheard.append(context))
    session = await harness.session()
    calls = [RequestedCall(f"c{number}", "list_files", "{}") for number in range(count)]
    with pytest.raises(SessionNotFound):
        await harness.run(session, "go", ErasesItsSession(harness, session, *calls))
    gc.collect()
    assert unheard == []
