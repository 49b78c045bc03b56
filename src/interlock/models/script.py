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
import binascii
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from interlock.core.errors import ConfigurationError
from interlock.models.provider import ModelFault

MAX_SCRIPT_BYTES = 1024 * 1024
_LONGEST_SLEEP_MS = 600_000


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One turn of the model. A turn with a fault gives no answer."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    sleep_ms: int = 0
    fault: ModelFault | None = None
    retry_after_seconds: float | None = None
    # Only for conversations whose first message contains this.
    when: str = ""


Script = tuple[ScriptedTurn, ...]


class _Wrong(ValueError):
    """What is wrong with one item."""


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
                when = _part(item)
            else:
                turns.append(replace(_turn(item), when=when))
        except _Wrong as wrong:
            raise ConfigurationError(f"{named}, {place}: {wrong}") from None
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


def _turn(item: Any) -> ScriptedTurn:
    if isinstance(item, str) and item.startswith("{"):
        try:
            item = orjson.loads(item)
        except orjson.JSONDecodeError as error:
            raise _Wrong(f"it is not JSON: {error}") from None
    if isinstance(item, dict):
        return _from_object(item)
    if not isinstance(item, str):
        raise _Wrong("it is neither a text nor an object")
    word, colon, rest = item.partition(":")
    if item == "ok":
        return ScriptedTurn("ok")
    if not colon or word not in _WORDS:
        raise _Wrong(f"'{item}' is not one of ok, {', '.join(f'{known}:…' for known in _WORDS)}")
    return _WORDS[word](rest)


def _part(item: str) -> str:
    words = item.removeprefix("when:").strip()
    if not words:
        raise _Wrong("when: needs a text")
    return words


def _message(rest: str) -> ScriptedTurn:
    if not rest:
        raise _Wrong("msg: needs a text")
    return ScriptedTurn(rest)


def _encoded_message(rest: str) -> ScriptedTurn:
    try:
        return _message(base64.b64decode(rest, validate=True).decode())
    except (binascii.Error, ValueError) as error:
        raise _Wrong(f"msgb64: needs UTF-8 text in base64 ({error})") from None


def _sleep(rest: str) -> ScriptedTurn:
    if not rest.isdecimal():
        raise _Wrong("sleep: needs a number of milliseconds")
    return ScriptedTurn("ok", sleep_ms=_milliseconds(int(rest[:10])))


def _error(rest: str) -> ScriptedTurn:
    name, _, seconds = rest.partition(":")
    if name not in list(ModelFault):
        raise _Wrong(f"err:{name} is not one of {', '.join(ModelFault)}")
    try:
        retry_after = float(seconds) if seconds else None
    except ValueError:
        retry_after = -1
    if retry_after is not None and not 0 <= retry_after <= 3600:
        raise _Wrong(f"err:{name}:{seconds} needs a number of seconds, at most 3600")
    return ScriptedTurn(fault=ModelFault(name), retry_after_seconds=retry_after)


def _call(rest: str) -> ScriptedTurn:
    name, _, arguments = rest.partition(" ")
    if not name:
        raise _Wrong("call: needs the name of a tool")
    return ScriptedTurn(calls=(ScriptedCall(name, arguments.strip() or "{}"),))


_WORDS: dict[str, Callable[[str], ScriptedTurn]] = {
    "msg": _message,
    "msgb64": _encoded_message,
    "sleep": _sleep,
    "err": _error,
    "call": _call,
}


def _from_object(item: dict[str, Any]) -> ScriptedTurn:
    unknown = sorted(item.keys() - {"msg", "tool_calls", "sleep_ms"})
    if unknown:
        raise _Wrong(f"'{unknown[0]}' is not one of msg, sleep_ms, tool_calls")
    text, calls, sleep_ms = item.get("msg", ""), item.get("tool_calls", []), item.get("sleep_ms", 0)
    if not isinstance(text, str) or not isinstance(calls, list) or type(sleep_ms) is not int:
        raise _Wrong("msg must be a text, tool_calls a list, sleep_ms a whole number")
    if not text and not calls:
        raise _Wrong("it needs msg or tool_calls")
    return ScriptedTurn(text, tuple(map(_call_from, calls)), _milliseconds(sleep_ms))


def _call_from(item: Any) -> ScriptedCall:
    if not isinstance(item, dict) or not item.keys() <= {"name", "arguments"}:
        raise _Wrong("a tool call must have only a name and arguments")
    name, arguments = item.get("name"), item.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise _Wrong("a tool call needs a name")
    return ScriptedCall(name, arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode())


def _milliseconds(number: int) -> int:
    if not 0 <= number <= _LONGEST_SLEEP_MS:
        raise _Wrong(f"it cannot sleep longer than {_LONGEST_SLEEP_MS} milliseconds")
    return number
