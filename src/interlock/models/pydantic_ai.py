"""Every other provider, through pydantic-ai's model layer. Loaded only when chosen: it is large.

Its agent loop, retries and tools are not used: one request goes in and one reply comes out.
"""

import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from hashlib import sha256
from typing import Any

import orjson
from pydantic_ai import exceptions, messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from interlock.core.errors import ConfigurationError
from interlock.core.token_usage import TokenUsage
from interlock.models.message_decoding import EndpointMessage, decode_messages
from interlock.models.provider import (
    FinishReason,
    ModelError,
    ModelFault,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    RequestedCall,
    ToolChoice,
)
from interlock.models.server_errors import error_text
from interlock.models.stream_accumulator import new_call_id

_IDLE_SECONDS = 120.0
# The call ids that a provider accepts, by its name.
_FITS = re.compile("[A-Za-z0-9_-]+")
_FITTING = {"mistral": re.compile("[A-Za-z0-9]{9}")}
# The more specific first: some of these are subclasses of others.
_FAULTS: tuple[tuple[type[Exception], ModelFault, str], ...] = (
    (exceptions.ModelQuotaExceededError, ModelFault.quota, "the account has no credit left"),
    (exceptions.ModelRateLimitError, ModelFault.rate_limited, "the provider reports too many requests"),
    (exceptions.ModelContextWindowExceededError, ModelFault.too_long, "the conversation is too long"),
    (exceptions.ModelAuthenticationError, ModelFault.auth, "the provider rejects the key"),
    (exceptions.ModelNotFoundError, ModelFault.not_found, "there is no such model"),
    (
        exceptions.ModelRequestRejectedError,
        ModelFault.invalid_request,
        "the provider rejects the request",
    ),
    (exceptions.ModelRequestTimeout, ModelFault.timeout, "the model sent nothing for too long"),
    (exceptions.ModelTimeoutError, ModelFault.timeout, "the model sent nothing for too long"),
    (exceptions.ModelConnectionError, ModelFault.network, "the connection to the provider was lost"),
    (exceptions.ModelAPIError, ModelFault.server, "the provider failed"),
    (exceptions.UnexpectedModelBehavior, ModelFault.protocol, "the response cannot be parsed"),
    (exceptions.UserError, ModelFault.invalid_request, "the request cannot be sent to this model"),
    (TimeoutError, ModelFault.timeout, "the model sent nothing for too long"),
    (OSError, ModelFault.network, "the connection to the provider was lost"),
)


def open_provider(provider: str, name: str) -> "PydanticAIProvider":
    """The model of that name. Its key is where the provider expects it, such as ANTHROPIC_API_KEY."""
    try:
        model = infer_model(f"{provider}:{name}")
    except (exceptions.UserError, ImportError) as error:
        raise ConfigurationError(f"MODEL: {provider}:{name}: {' '.join(str(error).split())}") from None
    secrets = tuple(
        value for key, value in os.environ.items() if value and key.endswith(("_KEY", "_TOKEN"))
    )
    return PydanticAIProvider(model, secrets)


class PydanticAIProvider:
    """`secrets` are masked in errors."""

    def __init__(self, model: Model, secrets: Sequence[str] = ()) -> None:
        self._model = model
        self._secrets = secrets

    @property
    def name(self) -> str:
        return str(self._model.model_name)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        try:
            async with aclosing(self._items(request)) as items:
                async for item in items:
                    yield item
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - the one edge where that library's errors end
            raise self._model_error(error) from None

    async def close(self) -> None:
        """Clients belong to pydantic-ai, which shares them between models."""

    async def _items(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        pieces: list[str] = []
        async with model_request_stream(
            self._model,
            list(_history(decode_messages(request.messages), _FITTING.get(self._model.system, _FITS))),
            model_settings=_settings(request),
            model_request_parameters=ModelRequestParameters(function_tools=_tools(request.tools)),
            instrument=False,
        ) as stream:
            async for event in stream:
                if text := _text_of(event):
                    pieces.append(text)
                    yield ModelTextDelta(text)
            response = stream.get()
        yield _reply(response, "".join(pieces))

    def _model_error(self, error: Exception) -> ModelError:
        fault, sentence = next(
            ((fault, sentence) for kind, fault, sentence in _FAULTS if isinstance(error, kind)),
            (ModelFault.server, "the provider's library failed"),
        )
        body = getattr(error, "body", None)
        said = error_text(body.get("error", body) if isinstance(body, dict) else str(error), *self._secrets)
        return ModelError(
            fault,
            f"{sentence}; {self._model.system} says: {said}",
            retry_after_seconds=getattr(error, "retry_after", None),
        )


# -- requests ----------------------------------------------------------------------------------------


def _history(
    conversation: Sequence[EndpointMessage], fitting: re.Pattern[str]
) -> Iterator[messages.ModelMessage]:
    parts: list[messages.ModelRequestPart] = []
    names: dict[str, str] = {}
    for message in conversation:
        match message.role:
            case "assistant":
                response = _response_parts(message, fitting)
                if not response:
                    # An empty message, which not every provider accepts.
                    continue
                if parts:
                    yield messages.ModelRequest(parts=parts)
                    parts = []
                names = {call_id: name for call_id, name, _ in message.calls}
                yield messages.ModelResponse(parts=response)
            case "tool":
                name = names.get(message.call_id, "unknown")
                identity = _identity(message.call_id, fitting)
                parts.append(messages.ToolReturnPart(name, message.content, identity))
            case "system":
                parts.append(messages.SystemPromptPart(message.content))
            case _:
                parts.append(messages.UserPromptPart(message.content))
    if parts:
        yield messages.ModelRequest(parts=parts)


def _response_parts(message: EndpointMessage, fitting: re.Pattern[str]) -> list[messages.ModelResponsePart]:
    parts: list[messages.ModelResponsePart] = []
    if message.content:
        parts.append(messages.TextPart(message.content))
    parts += [
        messages.ToolCallPart(name, arguments, _identity(call_id, fitting))
        for call_id, name, arguments in message.calls
    ]
    return parts


def _identity(call_id: str, fitting: re.Pattern[str]) -> str:
    """Replace an id that this provider refuses; it may come from another model of the same session."""
    return call_id if fitting.fullmatch(call_id) else sha256(call_id.encode()).hexdigest()[:9]


def _tools(encoded: bytes) -> list[ToolDefinition]:
    return [
        ToolDefinition(
            name=tool["function"]["name"],
            description=tool["function"]["description"],
            parameters_json_schema=tool["function"]["parameters"],
        )
        for tool in orjson.loads(encoded or b"[]")
    ]


def _settings(request: ModelRequest) -> ModelSettings:
    # The caller decides about retries, and knows what was already shown.
    settings = ModelSettings(timeout=_IDLE_SECONDS, max_retries=0)
    if request.max_output_tokens is not None:
        settings["max_tokens"] = request.max_output_tokens
    if request.tool_choice is ToolChoice.required and request.tools not in (b"", b"[]"):
        settings["tool_choice"] = "required"
    return settings


# -- replies -----------------------------------------------------------------------------------------


def _text_of(event: messages.ModelResponseStreamEvent) -> str:
    match event:
        case messages.PartStartEvent(part=messages.TextPart(content=text)):
            return str(text)
        case messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=text)):
            return str(text)
    return ""


def _written(arguments: str | Mapping[str, Any] | None) -> str:
    """As the model wrote them, valid or not."""
    return arguments if isinstance(arguments, str) else orjson.dumps(dict(arguments or {})).decode()


def _reply(response: messages.ModelResponse, text: str) -> ModelReply:
    calls = tuple(
        RequestedCall(part.tool_call_id or new_call_id(), part.tool_name, _written(part.args))
        for part in response.parts
        if isinstance(part, messages.ToolCallPart)
    )
    finish = FinishReason.tool_calls if calls else FinishReason.stop
    if response.finish_reason in ("length", "content_filter"):
        finish = FinishReason(response.finish_reason)
    if not text and not calls and finish is FinishReason.stop:
        raise ModelError(ModelFault.protocol, "the model's response is empty")
    used = response.usage
    usage = (
        TokenUsage(used.input_tokens, used.output_tokens)
        if used.input_tokens or used.output_tokens
        else None
    )
    return ModelReply(text, calls, finish, usage)
