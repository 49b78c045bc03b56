"""A step of a call that takes as long as a test wants, as on a disk that does not answer."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

_SECONDS = 30


class Slow:
    """In the place of a step that is done on a thread."""

    def __init__(self, step: Callable[..., Any]) -> None:
        self.step = step
        self._has_begun, self._may_go_on = threading.Event(), threading.Event()

    def __call__(self, *given: Any, **named: Any) -> Any:
        self._has_begun.set()
        self._may_go_on.wait(_SECONDS)
        return self.step(*given, **named)

    def let_go_on(self) -> None:
        self._may_go_on.set()

    async def cancel(self, call: "asyncio.Future[Any]") -> None:
        """Cancel a call while the step lasts, and then let the step end."""
        assert await asyncio.to_thread(self._has_begun.wait, _SECONDS)
        call.cancel()
        await asyncio.sleep(0.01)
        self.let_go_on()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.sleep(0)
