"""Every other provider, through pydantic-ai's model layer. Loaded only when chosen: it is large.

Its agent loop, retries and tools are not used: one request goes in and one reply comes out.
"""

import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from hashlib import sha256
from typing import Any, assert_never

import orjson
from pydantic_ai import exceptions, messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from interlock.core.errors import ConfigurationError
from interlock.core.token_usage import TokenUsage
from interlock.models.message_encoding import encodable_arguments, encodable_call_id, encodable_tool_name
from interlock.models.provider import (
    AssistantMessage,
    ChatMessage,
    FinishReason,
    ModelError,
    ModelFault,
    ModelReasoningDelta,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    Reasoning,
    RequestedCall,
    SystemMessage,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from interlock.models.server_errors import error_text
from interlock.models.stream_accumulator import MAX_REPLY_BYTES, new_call_id

_IDLE_SECONDS = 120.0
# The call ids that a provider accepts, by its name.
_FITS = re.compile("[A-Za-z0-9_-]+")
_FITTING = {"mistral": re.compile("[A-Za-z0-9]{9}")}
# What a provider adds to the parts of a response. Signatures and the like are needed back.
_NEEDED_MARKS = ("id", "signature", "provider_details")
_MARKS = (*_NEEDED_MARKS, "provider_name")
_BETWEEN = "\n\n"
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
    return PydanticAIProvider(provider, model, secrets)


class PydanticAIProvider:
    """`provider` is the name in MODEL. `secrets` are masked in errors."""

    def __init__(self, provider: str, model: Model, secrets: Sequence[str] = ()) -> None:
        self._model = model
        self._secrets = secrets
        # Of reasoning and of cached messages: other providers have models of the same name.
        self._origin = f"{provider}:{model.model_name}"
        self._history = _History(model, self._origin)

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
        chars = 0
        async with model_request_stream(
            self._model,
            list(self._history.encode(request.messages)),
            model_settings=_settings(request),
            model_request_parameters=ModelRequestParameters(function_tools=list(_tools(request.tools))),
            instrument=False,
        ) as stream:
            async for event in stream:
                delta = _delta_of(event)
                if delta is not None and delta.text:
                    chars += len(delta.text)
                    if chars > MAX_REPLY_BYTES:
                        raise ModelError(ModelFault.protocol, "the model's response exceeds the size limit")
                    yield delta
                    if isinstance(delta, ModelTextDelta):
                        pieces.append(delta.text)
            response = stream.get()
        yield _reply(response, "".join(pieces), self._origin)

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


class _History:
    """Puts messages into the library's form. The parts of each message are made once."""

    def __init__(self, model: Model, origin: str) -> None:
        self._model = model
        self._origin = origin
        self._form = f"pydantic-ai {origin}"

    def encode(self, conversation: Sequence[ChatMessage]) -> Iterator[messages.ModelMessage]:
        parts: list[messages.ModelRequestPart] = []
        names: dict[str, str] = {}
        for message in conversation:
            known = message.encodings.get(self._form)
            if known is None:
                known = message.encodings[self._form] = self._encoded(message, names)
            if not isinstance(message, AssistantMessage):
                parts.append(known)
                continue
            names = {call.call_id: call.name for call in message.calls}
            if not known.parts:
                # An empty message, which not every provider accepts.
                continue
            if parts:
                yield messages.ModelRequest(parts=parts)
                parts = []
            yield known
        if parts:
            yield messages.ModelRequest(parts=parts)

    def _encoded(
        self, message: ChatMessage, names: Mapping[str, str]
    ) -> messages.ModelRequestPart | messages.ModelResponse:
        match message:
            case SystemMessage(text):
                return messages.SystemPromptPart(text)
            case UserMessage(text):
                return messages.UserPromptPart(text)
            case ToolMessage(call_id, text):
                name = encodable_tool_name(names.get(call_id, "unknown"))
                return messages.ToolReturnPart(name, text, self._identity(call_id))
            case AssistantMessage():
                parts = list(self._response_parts(message))
                providers = (part.provider_name for part in parts if part.provider_name)
                # Needed to return ids of what the provider itself keeps.
                return messages.ModelResponse(parts=parts, provider_name=next(providers, None))
            case _:
                assert_never(message)

    def _response_parts(self, message: AssistantMessage) -> Iterator[messages.ModelResponsePart]:
        reasoning = message.reasoning
        is_own = reasoning is not None and reasoning.model == self._origin and reasoning.opaque
        text = message.text if message.text.strip() else ""
        thoughts, calls = reasoning.text if reasoning else "", list(message.calls)
        for marks in orjson.loads(reasoning.opaque) if reasoning and is_own else []:
            kind, length = marks.pop("kind"), marks.pop("length", 0)
            if kind == "thinking":
                yield messages.ThinkingPart(thoughts[:length], **marks)
                thoughts = thoughts[length + len(_BETWEEN) :] if length else thoughts
            elif kind == "text" and text:
                yield messages.TextPart(text, **marks)
                text = ""
            elif kind == "tool-call" and calls:
                yield self._call_part(calls.pop(0), marks)
        if text:
            yield messages.TextPart(text)
        for call in calls:
            yield self._call_part(call, {})

    def _call_part(self, call: RequestedCall, marks: Mapping[str, Any]) -> messages.ToolCallPart:
        name, arguments = encodable_tool_name(call.name), encodable_arguments(call.arguments)
        return messages.ToolCallPart(name, arguments, self._identity(call.call_id), **marks)

    def _identity(self, call_id: str) -> str:
        """Replace an id that this provider refuses; it may come from another model of the same session."""
        call_id, fitting = encodable_call_id(call_id), _FITTING.get(self._model.system, _FITS)
        return call_id if fitting.fullmatch(call_id) else sha256(call_id.encode()).hexdigest()[:9]


@lru_cache(maxsize=32)
def _tools(encoded: bytes) -> tuple[ToolDefinition, ...]:
    return tuple(
        ToolDefinition(
            name=tool["function"]["name"],
            description=tool["function"]["description"],
            parameters_json_schema=tool["function"]["parameters"],
        )
        for tool in orjson.loads(encoded or b"[]")
    )


def _settings(request: ModelRequest) -> ModelSettings:
    # The caller decides about retries, and knows what was already shown.
    settings = ModelSettings(timeout=_IDLE_SECONDS, max_retries=0)
    if request.max_output_tokens is not None:
        settings["max_tokens"] = request.max_output_tokens
    if request.tool_choice is ToolChoice.required and request.tools not in (b"", b"[]"):
        settings["tool_choice"] = "required"
    return settings


# -- replies -----------------------------------------------------------------------------------------


def _delta_of(event: messages.ModelResponseStreamEvent) -> ModelTextDelta | ModelReasoningDelta | None:
    match event:
        case messages.PartStartEvent(part=messages.TextPart(content=text)):
            return ModelTextDelta(str(text))
        case messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=text)):
            return ModelTextDelta(str(text))
        case messages.PartStartEvent(part=messages.ThinkingPart(content=text)):
            return ModelReasoningDelta(str(text))
        case messages.PartDeltaEvent(delta=messages.ThinkingPartDelta(content_delta=text)):
            return ModelReasoningDelta(text or "")
    return None


def _reasoning(response: messages.ModelResponse, origin: str) -> Reasoning | None:
    """Its `opaque` lists the parts of the response as their provider wants them back.

    For each it has the kind, what identifies or signs it, and the length of a thought in the text. So
    neither the answer nor the calls are stored twice.
    """
    parts, is_needed, thoughts = [], False, []
    for part in response.parts:
        if not isinstance(part, messages.ThinkingPart | messages.TextPart | messages.ToolCallPart):
            continue
        marks = {name: getattr(part, name, None) for name in _MARKS}
        fields = {"kind": part.part_kind} | {
            key: value for key, value in marks.items() if value is not None
        }
        is_needed = is_needed or any(name in fields for name in _NEEDED_MARKS)
        if isinstance(part, messages.ThinkingPart):
            fields["length"] = len(part.content)
            thoughts += [part.content] if part.content else []
        parts.append(fields)
    text = _BETWEEN.join(thoughts)
    try:
        opaque = orjson.dumps(parts).decode() if is_needed else ""
    except TypeError:
        opaque = ""
    return Reasoning(text, origin, opaque) if text or opaque else None


def _written(arguments: str | Mapping[str, Any] | None) -> str:
    """As the model wrote them, valid or not."""
    return arguments if isinstance(arguments, str) else orjson.dumps(dict(arguments or {})).decode()


def _reply(response: messages.ModelResponse, text: str, origin: str) -> ModelReply:
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
    return ModelReply(text, calls, finish, usage, _reasoning(response, origin))
