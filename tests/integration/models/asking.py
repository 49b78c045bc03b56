"""Asks a model as the loop will, and keeps what came."""

from contextlib import aclosing

import pytest

from interlock.models.openai_chat import ChatEndpointConfig, OpenAIChatProvider
from interlock.models.provider import (
    ModelError,
    ModelProvider,
    ModelReply,
    ModelRequest,
    ModelTextDelta,
    SystemMessage,
    UserMessage,
)
from tests.harness.model_answers import MODEL, ModelAnswer
from tests.harness.model_server import KEY, ModelServer

QUESTION = ModelRequest((SystemMessage("Be brief."), UserMessage("Hello?")))


async def asked(provider: ModelProvider, request: ModelRequest = QUESTION) -> tuple[list[str], ModelReply]:
    """The pieces and the reply, which must be the same text."""
    pieces, replies = [], []
    async with aclosing(provider.stream(request)) as items:
        async for item in items:
            match item:
                case ModelTextDelta(text):
                    assert not replies
                    assert text
                    pieces.append(text)
                case ModelReply():
                    replies.append(item)
    (reply,) = replies
    assert "".join(pieces) == reply.text
    return pieces, reply


async def failed(provider: ModelProvider, request: ModelRequest = QUESTION) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await asked(provider, request)
    return caught.value


def chat(server: ModelServer, **more: float) -> OpenAIChatProvider:
    return OpenAIChatProvider(ChatEndpointConfig(server.base_url, MODEL, server.key or "", **more))


async def reply_to(answer: ModelAnswer, request: ModelRequest = QUESTION, **more: float) -> ModelReply:
    async with ModelServer([answer]) as server:
        provider = chat(server, **more)
        _, reply = await asked(provider, request)
        await provider.close()
        assert server.faults == []
        return reply


async def failure_of(answer: ModelAnswer, request: ModelRequest = QUESTION, **more: float) -> ModelError:
    async with ModelServer([answer]) as server:
        provider = chat(server, **more)
        error = await failed(provider, request)
        await provider.close()
        assert server.faults == []
        assert KEY not in str(error)
        return error
