"""Asks a provider without a network, and keeps what came."""

import asyncio
from contextlib import aclosing

import pytest

from interlock.core.token_usage import TokenUsage
from interlock.models.provider import (
    ModelError,
    ModelProvider,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    UserMessage,
)

QUESTION = ModelRequest((UserMessage("Hello?"),))


async def streamed(
    provider: ModelProvider, request: ModelRequest = QUESTION
) -> tuple[list[str], ModelReply]:
    pieces: list[str] = []
    async with aclosing(provider.stream(request)) as items:
        async for item in items:
            match item:
                case ModelTextDelta(text):
                    assert text
                    pieces.append(text)
                case ModelReply():
                    assert "".join(pieces) == item.text
                    reply = item
    return pieces, reply


def asked(provider: ModelProvider, request: ModelRequest = QUESTION) -> ModelReply:
    return asyncio.run(streamed(provider, request))[1]


def failed(provider: ModelProvider, request: ModelRequest = QUESTION) -> ModelError:
    with pytest.raises(ModelError) as caught:
        asked(provider, request)
    return caught.value


class Saying:
    """A model that can only write, and writes these texts in turn, in pieces of that size."""

    name = "saying"

    def __init__(self, *replies: str | ModelReply, size: int = 3) -> None:
        self._replies = list(replies)
        self._size = size
        self.requests: list[ModelRequest] = []
        self.is_closed = False

    async def stream(self, request: ModelRequest):
        self.requests.append(request)
        reply = self._replies.pop(0)
        whole = reply if isinstance(reply, ModelReply) else ModelReply(reply, usage=TokenUsage(10, 5))
        items: list[ModelStreamItem] = [
            ModelTextDelta(whole.text[at : at + self._size]) for at in range(0, len(whole.text), self._size)
        ]
        for item in [*items, whole]:
            yield item

    async def close(self) -> None:
        self.is_closed = True
