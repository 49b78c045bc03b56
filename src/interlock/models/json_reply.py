"""Parses a reply of the neutral form: `{"tool_calls": [{"name", "arguments"}], "final_answer": ""}`."""

import json
import re
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from interlock.core.text import safe_excerpt, sanitize_text
from interlock.core.validation_faults import describe_fault, key_path
from interlock.models.stream_accumulator import MAX_CALLS

_THOUGHTS = re.compile(r"\A\s*<think>.*?(</think>|\Z)", re.DOTALL)
_FENCE = "```"
_LONGEST_PATH = 60
_PROSE = "to say something to the user, write all of it into final_answer"


class InvalidReply(ValueError):
    """What is wrong with a reply, in words that the model can act on."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class JsonCall(_Part):
    name: Annotated[str, Field(min_length=1), AfterValidator(sanitize_text)]
    arguments: dict[str, Any] = {}

    @property
    def arguments_json(self) -> str:
        return sanitize_text(json.dumps(self.arguments, ensure_ascii=False))


class JsonReply(_Part):
    tool_calls: list[JsonCall] = Field(default=[], max_length=MAX_CALLS)
    final_answer: str = ""


def parse_json_reply(text: str) -> JsonReply:
    """The whole reply is the object, after thoughts and within at most one fence: calls or an answer."""
    try:
        reply = JsonReply.model_validate(_document(_THOUGHTS.sub("", text).strip()))
    except ValidationError as error:
        raise InvalidReply(_reason(error)) from None
    if reply.tool_calls:
        # Both at once has no meaning: the tools run, and the answer waits for their results.
        return JsonReply(tool_calls=reply.tool_calls)
    if not reply.final_answer.strip():
        raise InvalidReply("tool_calls and final_answer are both empty; give one of them")
    return JsonReply(final_answer=sanitize_text(reply.final_answer).lstrip())


def _document(text: str) -> dict[str, Any]:
    """The reply as one object. An object with text before or after it is a quotation, not a request."""
    first, _, rest = text.partition("\n")
    if first.rstrip().lower() in {_FENCE, f"{_FENCE}json"} and rest.endswith(_FENCE):
        text = rest.removesuffix(_FENCE).strip()
    if not text.startswith("{"):
        raise InvalidReply(f"it is not a single JSON object; {_PROSE}")
    try:
        # Models write line ends into strings without escaping them.
        document: dict[str, Any] = json.loads(
            text, strict=False, object_pairs_hook=_pairs, parse_constant=_no_constant
        )
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise InvalidReply(f"something follows the JSON object; {_PROSE}") from None
        raise InvalidReply(f"it is not valid JSON: {error.msg} at character {error.pos}") from None
    except InvalidReply:
        raise
    except (ValueError, RecursionError):
        raise InvalidReply("it is nested too deeply, or contains a number that is too long") from None
    return document


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise InvalidReply("a key occurs twice")
    return document


def _no_constant(name: str) -> NoReturn:
    raise InvalidReply(f"{name} is not JSON")


def _reason(error: ValidationError) -> str:
    """The first fault and its path: `tool_calls[0].name is missing`."""
    fault = error.errors(include_url=False)[0]
    path = safe_excerpt(sanitize_text(key_path(fault["loc"])), _LONGEST_PATH)
    return f"{path} {describe_fault(fault) or 'is not valid'}"
