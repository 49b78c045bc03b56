"""A model that follows a script (`models/script.py`), for tests and examples.

The number of answers in a conversation determines the next item of the script. So it continues after a
restart, and every conversation has its own position. A fault leaves no answer; it is raised once for the
same conversation, and the next try gets the item after it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import replace

from interlock.models.offline_models import conversation_key, estimate_usage, stream_reply
from interlock.models.provider import (
    AssistantMessage,
    FinishReason,
    ModelError,
    ModelFault,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    RequestedCall,
    UserMessage,
)
from interlock.models.script import Script, ScriptedTurn


class ScriptedProvider:
    def __init__(self, script: Script) -> None:
        self._script = script
        # How often this process has failed for each state of a conversation.
        self._failed: Counter[str] = Counter()

    @property
    def name(self) -> str:
        return "scripted"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        state = conversation_key(request)
        turn = self._turn(request, state)
        await asyncio.sleep(turn.sleep_ms / 1000)
        if turn.fault is not None:
            self._failed[state] += 1
            raise ModelError(
                turn.fault,
                f"the script says: err:{turn.fault}",
                retry_after_seconds=turn.retry_after_seconds,
            )
        for item in stream_reply(_reply(turn, request, state)):
            yield item
            await asyncio.sleep(0)

    async def close(self) -> None:
        pass

    def _part(self, request: ModelRequest) -> str:
        """The part of the script that this conversation follows, chosen by its first message."""
        spoken = (message.text for message in request.messages if isinstance(message, UserMessage))
        words = next(spoken, "")
        parts = dict.fromkeys(turn.when for turn in self._script if turn.when)
        return next((part for part in parts if part in words), "")

    def _turn(self, request: ModelRequest, state: str) -> ScriptedTurn:
        answered = sum(isinstance(message, AssistantMessage) for message in request.messages)
        failed, part = self._failed[state], self._part(request)
        for turn in (turn for turn in self._script if turn.when == part):
            if turn.fault is None:
                if answered == 0:
                    return turn
                answered -= 1
            elif answered == 0:
                if failed == 0:
                    return turn
                failed -= 1
        raise ModelError(ModelFault.invalid_request, f"the script ended after {len(self._script)} turns")


def _reply(turn: ScriptedTurn, request: ModelRequest, state: str) -> ModelReply:
    calls = tuple(
        RequestedCall(f"call_{state}_{number}", call.name, call.arguments)
        for number, call in enumerate(turn.calls)
    )
    reply = ModelReply(turn.text, calls, FinishReason.tool_calls if calls else FinishReason.stop)
    return replace(reply, usage=estimate_usage(request, reply))
