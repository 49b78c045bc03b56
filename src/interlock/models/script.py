"""Scripts for the scripted model: its replies, turn by turn.

A script is a text with one item a line (empty lines and lines that begin with # are skipped), or a JSON
list of the same items:

    ok                              answers "ok"
    msg:Hello                       answers with that text
    msgb64:SGVsbG8=                 the same, for texts with line ends
    sleep:250                       waits so many milliseconds, then answers "ok"
    err:server                      fails with that fault; err:rate_limited:2 says when to try again
    call:read_file {"path": "a"}    calls a tool; the arguments are sent unchanged, valid or not
    {"msg": "Let me look.", "sleep_ms": 10, "tool_calls": [{"name": "bash", "arguments": {"cmd": "ls"}}]}
    when:Step build                 what follows is for conversations whose first message contains that text

Several parts are tried in their order, and the first that fits is the script; the items before the first of
them are for all other conversations.
"""

import base64
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from interlock.core.errors import ConfigurationError
from interlock.core.validation_faults import describe_fault, key_path
from interlock.models.provider import ModelFault

MAX_SCRIPT_BYTES = 1024 * 1024
_WORDS = ("msg", "msgb64", "sleep", "err", "call")


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()


class _Item(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScriptedCall(_Item):
    name: str = Field(min_length=1)
    arguments: Annotated[str, BeforeValidator(_as_text)] = "{}"


class ScriptedTurn(_Item):
    """One turn of the model. A turn with a fault gives no answer."""

    text: str = Field("", alias="msg")
    calls: list[ScriptedCall] = Field(default=[], alias="tool_calls")
    sleep_ms: int = Field(0, ge=0, le=600_000, strict=False)
    fault: ModelFault | None = Field(None, alias="err", strict=False)
    retry_after_seconds: float | None = Field(None, ge=0, le=3600, strict=False)
    # Only for conversations whose first message contains this.
    when: str = ""

    @model_validator(mode="after")
    def _does_something(self) -> "ScriptedTurn":
        if not (self.text or self.calls or self.fault):
            raise ValueError("it needs msg, tool_calls or err")
        return self


Script = tuple[ScriptedTurn, ...]


def read_script(source: str) -> Script:
    """Read a script: a JSON list given inline, or else the name of a file."""
    if source.lstrip().startswith("["):
        return parse_script(source, "the script")
    path = Path(source).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ConfigurationError(f"the script {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the script {path} is not UTF-8 text") from None
    if len(data) > MAX_SCRIPT_BYTES:
        raise ConfigurationError(f"the script {path} has more than {MAX_SCRIPT_BYTES} bytes")
    return parse_script(text, f"the script {path}")


def parse_script(text: str, named: str) -> Script:
    """Every item must be valid: a script that does something else than it says tests nothing."""
    turns, when = [], ""
    for place, item in _items(text, named):
        try:
            if isinstance(item, str) and item.startswith("when:"):
                when = item.removeprefix("when:").strip()
            else:
                turns.append(ScriptedTurn.model_validate({"when": when, **_fields(item)}))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            reason = f"{key_path(fault['loc'])} {describe_fault(fault) or fault['msg']}".strip()
            raise ConfigurationError(f"{named}, {place}: {reason}") from None
        except orjson.JSONDecodeError as error:
            raise ConfigurationError(f"{named}, {place}: it is not JSON: {error}") from None
        except ValueError as error:
            raise ConfigurationError(f"{named}, {place}: {error}") from None
    if not turns:
        raise ConfigurationError(f"{named} has no turn")
    return tuple(turns)


def _items(text: str, named: str) -> list[tuple[str, Any]]:
    if text.lstrip().startswith("["):
        try:
            items = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ConfigurationError(f"{named} is not a JSON list: {error}") from None
        return [(f"item {number}", item) for number, item in enumerate(items, 1)]
    lines = [(f"line {number}", line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    return [(place, line) for place, line in lines if line and not line.startswith("#")]


def _fields(item: Any) -> dict[str, Any]:
    """The fields of a turn, of an item in any of the forms."""
    if isinstance(item, str) and item.startswith("{"):
        item = orjson.loads(item)
    if isinstance(item, dict):
        return item
    word, colon, rest = item.partition(":") if isinstance(item, str) else ("", "", "")
    match word if colon else item:
        case "ok":
            return {"msg": "ok"}
        case "msg":
            return {"msg": rest}
        case "msgb64":
            return {"msg": base64.b64decode(rest, validate=True).decode()}
        case "sleep":
            return {"msg": "ok", "sleep_ms": rest}
        case "err":
            fault, _, seconds = rest.partition(":")
            return {"err": fault, "retry_after_seconds": seconds or None}
        case "call":
            name, _, arguments = rest.partition(" ")
            return {"tool_calls": [{"name": name, "arguments": arguments.strip() or "{}"}]}
    known = ", ".join(f"{word}:…" for word in _WORDS)
    raise ValueError(f"'{item}' is not one of ok, {known}")
