"""The interface of all providers: messages, request, reply and errors."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from interlock.core.errors import InterlockError
from interlock.core.token_usage import TokenUsage


class ToolChoice(StrEnum):
    """Whether the model has to call a tool. `none` is for a request that offers none."""

    none = "none"
    auto = "auto"
    required = "required"


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call as the model wrote it: the arguments are text, complete or not, valid or not."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a model wrote before its reply. Only that model, as PROVIDER:NAME, gets it back.

    `opaque` is JSON that the provider needs unchanged beside the text, such as a signature, or empty.
    """

    text: str
    model: str = ""
    opaque: str = ""


@dataclass(frozen=True, slots=True)
class _Message:
    # A provider's encoding of this object, by the name of the provider's form: a history that grows is
    # encoded once, not in every turn.
    encodings: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SystemMessage(_Message):
    text: str


@dataclass(frozen=True, slots=True)
class UserMessage(_Message):
    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage(_Message):
    """`reasoning` is set where a provider may need it: beside calls of the task in progress."""

    text: str
    calls: Sequence[RequestedCall] = ()
    reasoning: Reasoning | None = None


@dataclass(frozen=True, slots=True)
class ToolMessage(_Message):
    """The result of a call."""

    call_id: str
    text: str


ChatMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One turn. The tools are function schemas as JSON."""

    messages: Sequence[ChatMessage]
    tools: bytes = b""
    tool_choice: ToolChoice = ToolChoice.auto
    max_output_tokens: int | None = None


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
class ModelReasoningDelta:
    """Reasoning as it arrives, for showing it."""

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
    reasoning: Reasoning | None = None


ModelStreamItem = ModelTextDelta | ModelReasoningDelta | ModelReply


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

    @property
    def is_of_the_request(self) -> bool:
        """Whether it says nothing about the next request, nor about another model."""
        return self in _OF_THE_REQUEST


_PASSING = frozenset(
    {
        ModelFault.rate_limited,
        ModelFault.server,
        ModelFault.timeout,
        ModelFault.network,
        ModelFault.protocol,
    }
)


_OF_THE_REQUEST = frozenset({ModelFault.invalid_request, ModelFault.too_long, ModelFault.validation})


class ModelError(InterlockError):
    """The request to a model failed, or its answer is unreadable. Shown to the person."""

    code = "LLM_ERROR"

    def __init__(
        self, fault: ModelFault, message: str, *, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.retry_after_seconds = retry_after_seconds
