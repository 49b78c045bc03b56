"""The interface of all providers: request, reply and errors."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from interlock.core.errors import InterlockError
from interlock.core.token_usage import TokenUsage


class ToolChoice(StrEnum):
    """Whether the model has to call a tool. `none` is for a request that offers none."""

    none = "none"
    auto = "auto"
    required = "required"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One turn. Messages and tools are encoded already (`models/message_encoding.py`), so that a long
    history costs no more than joining it."""

    messages: tuple[bytes, ...]
    tools: bytes = b""
    tool_choice: ToolChoice = ToolChoice.auto
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call as the model wrote it: the arguments are text, complete or not, valid or not."""

    call_id: str
    name: str
    arguments: str


class FinishReason(StrEnum):
    stop = "stop"
    tool_calls = "tool_calls"
    length = "length"
    content_filter = "content_filter"


@dataclass(frozen=True, slots=True)
class ModelTextDelta:
    """Text as it arrives. All deltas of a turn together are its reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The whole turn: the last item of a stream.

    One that was stopped by its length or a filter may have neither text nor calls.
    """

    text: str
    tool_calls: tuple[RequestedCall, ...] = ()
    finish_reason: FinishReason = FinishReason.stop
    usage: TokenUsage | None = None


ModelStreamItem = ModelTextDelta | ModelReply


class ModelProvider(Protocol):
    """`stream` yields deltas and at last one reply, or raises `ModelError`.

    It is an async generator: a caller that stops before the reply must close it (`contextlib.aclosing`),
    which closes the connection, so that the model stops generating.
    """

    @property
    def name(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]: ...

    async def close(self) -> None: ...


class ModelFault(StrEnum):
    """Why a model gave no reply. Retries and circuit breakers count by it."""

    auth = "auth"
    not_found = "not_found"
    invalid_request = "invalid_request"
    too_long = "too_long"
    quota = "quota"
    rate_limited = "rate_limited"
    server = "server"
    timeout = "timeout"
    network = "network"
    protocol = "protocol"
    # The model answered twice in an invalid form.
    validation = "validation"

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self in _PASSING


_PASSING = frozenset(
    {
        ModelFault.rate_limited,
        ModelFault.server,
        ModelFault.timeout,
        ModelFault.network,
        ModelFault.protocol,
    }
)


class ModelError(InterlockError):
    """The request to a model failed, or its answer is unreadable. Shown to the person."""

    code = "LLM_ERROR"

    def __init__(
        self, fault: ModelFault, message: str, *, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.retry_after_seconds = retry_after_seconds
