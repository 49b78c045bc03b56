"""Parses a reply of the neutral form: `{"tool_calls": [{"name", "arguments"}], "final_answer": ""}`."""

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from interlock.core.text import safe_excerpt, sanitize_text
from interlock.models.stream_accumulator import MAX_CALLS

_THOUGHTS = re.compile(r"\A\s*<think>.*?(</think>|\Z)", re.DOTALL)
_FENCE = "```"
_KEYS = {"tool_calls", "final_answer"}
_LONGEST_KEY = 60
_PROSE = "to say something to the user, write all of it into final_answer"


class InvalidReply(ValueError):
    """What is wrong with a reply, in words that the model can act on."""


@dataclass(frozen=True, slots=True)
class JsonCall:
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class JsonReply:
    calls: tuple[JsonCall, ...] = ()
    answer: str = ""


def parse_json_reply(text: str) -> JsonReply:
    """The whole reply is the object, after thoughts and within at most one fence."""
    document = _document(_THOUGHTS.sub("", text).strip())
    if unknown := sorted(document.keys() - _KEYS):
        raise InvalidReply(
            f"the key '{_shown(unknown[0])}' is not allowed; use only tool_calls and final_answer"
        )
    calls, answer = document.get("tool_calls", []), document.get("final_answer", "")
    if not isinstance(answer, str):
        raise InvalidReply("final_answer must be a string")
    if not isinstance(calls, list):
        raise InvalidReply("tool_calls must be a list")
    if len(calls) > MAX_CALLS:
        raise InvalidReply(f"there are more than {MAX_CALLS} tool calls")
    if calls:
        # Both at once has no meaning: the tools run, and the answer waits for their results.
        return JsonReply(tuple(_call(number, call) for number, call in enumerate(calls)))
    if not answer.strip():
        raise InvalidReply("tool_calls and final_answer are both empty; give one of them")
    return JsonReply(answer=sanitize_text(answer).lstrip())


def _document(text: str) -> dict[str, Any]:
    """The reply as one object. An object with text before or after it is a quotation, not a request."""
    text = _unfenced(text)
    if not text.startswith("{"):
        raise InvalidReply(f"it is not a single JSON object; {_PROSE}")
    try:
        document: dict[str, Any] = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise InvalidReply(f"something follows the JSON object; {_PROSE}") from None
        raise InvalidReply(f"it is not valid JSON: {error.msg} at character {error.pos}") from None
    except InvalidReply:
        raise
    except (ValueError, RecursionError):
        raise InvalidReply("it is nested too deeply, or contains a number that is too long") from None
    return document


def _unfenced(text: str) -> str:
    first, _, rest = text.partition("\n")
    is_fenced = first.rstrip().lower() in {_FENCE, f"{_FENCE}json"} and rest.endswith(_FENCE)
    return rest.removesuffix(_FENCE).strip() if is_fenced else text


def _shown(key: str) -> str:
    return safe_excerpt(sanitize_text(key), _LONGEST_KEY)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise InvalidReply("a key occurs twice")
    return document


def _no_constant(name: str) -> NoReturn:
    raise InvalidReply(f"{name} is not JSON")


def _call(number: int, call: Any) -> JsonCall:
    where = f"tool_calls[{number}]"
    if not isinstance(call, dict):
        raise InvalidReply(f"{where} must be an object with name and arguments")
    if unknown := sorted(call.keys() - {"name", "arguments"}):
        raise InvalidReply(
            f"{where}: the key '{_shown(unknown[0])}' is not allowed; use name and arguments"
        )
    name, arguments = call.get("name"), call.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise InvalidReply(f"{where}.name must be the name of a tool")
    if not isinstance(arguments, dict):
        raise InvalidReply(f"{where}.arguments must be an object")
    return JsonCall(sanitize_text(name), sanitize_text(json.dumps(arguments, ensure_ascii=False)))


# -- streaming ---------------------------------------------------------------------------------------

_ANSWER_BEGINS = re.compile(
    r"\A\s*(?:```(?:json)?\s*)?\{\s*\"tool_calls\"\s*:\s*\[\s*\]\s*,\s*\"final_answer\"\s*:\s*\"",
    re.IGNORECASE,
)
_SPECIAL = re.compile(r'["\\]')
# The blank text behind a quote can be very long: possessive, so that it is scanned once.
_ANSWER_ENDS = re.compile(r'"\s*+(?:,\s*+)?\}')
_MAY_STILL_END = re.compile(r'"\s*+(?:,\s*+)?\Z')
_LONGEST_BEGINNING = 200
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}


class StreamingAnswerParser:
    """Finds the answer's text in a reply that is still arriving.

    The answer begins once an empty `tool_calls` and the beginning of `final_answer` have arrived, in that
    order: then nothing else can follow, and the text can be shown at once. From there on it cannot become
    invalid: a quote that the model forgot to escape, or a line end, belongs to the text.
    """

    def __init__(self) -> None:
        self._rest = ""
        # A quote in `_rest` may be the end; blank text decides nothing, and waits here.
        self._is_undecided = False
        self._blank: list[str] = []
        self._high = ""
        self.text: list[str] = []
        self.has_begun = False
        self.has_ended = False
        self._is_hopeless = False

    def feed(self, piece: str) -> str:
        """The text that can be shown now."""
        if self.has_ended or self._is_hopeless:
            return ""
        if self._is_undecided and piece.isspace():
            self._blank.append(piece)
            return ""
        self._rest = "".join([self._rest, *self._blank, piece])
        self._blank.clear()
        if not self.has_begun:
            begins = _ANSWER_BEGINS.match(self._rest)
            if begins is None:
                self._is_hopeless = len(self._rest) > _LONGEST_BEGINNING
                return ""
            self.has_begun = True
            self._rest = self._rest[begins.end() :]
        return self._shown(self._decoded(is_last=False))

    def finish(self) -> str:
        """The text that was held back, when no more can come."""
        self._rest = "".join([self._rest, *self._blank])
        self._blank.clear()
        return self._shown(self._decoded(is_last=True)) if self.has_begun and not self.has_ended else ""

    def _shown(self, text: str) -> str:
        if not self.text:
            # Blank text is no answer yet, and the reply may still turn out to be invalid.
            text = text.lstrip()
        if text:
            self.text.append(text)
        return text

    def _decoded(self, *, is_last: bool) -> str:
        text, rest, at = [], self._rest, 0
        self._is_undecided = False
        while at < len(rest):
            special = _SPECIAL.search(rest, at)
            stop = special.start() if special else len(rest)
            if stop > at:
                text.append(self._joined(rest[at:stop]))
                at = stop
                continue
            if rest[at] == '"':
                if _ANSWER_ENDS.match(rest, at):
                    self.has_ended = True
                    at = len(rest)
                elif _MAY_STILL_END.match(rest, at):
                    if not is_last:
                        self._is_undecided = True
                        break
                    at = len(rest)
                else:
                    text.append(self._joined('"'))
                    at += 1
                continue
            taken, character = _escape(rest[at : at + 6])
            if not taken and not is_last:
                break
            text.append(self._joined(character))
            at += taken or len(rest)
        self._rest = rest[at:]
        if self._high and (is_last or self.has_ended):
            text.append("\ufffd")
        return sanitize_text("".join(text))

    def _joined(self, text: str) -> str:
        """Join surrogate pairs: two escapes may be one character."""
        if not text:
            return ""
        text, self._high = self._high + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._high = text[:-1], text[-1]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str) -> tuple[int, str]:
    """The length of the escape that begins here, and its character; 0 if it is incomplete."""
    if len(text) < 2:
        return 0, ""
    if text[1] != "u":
        return 2, _ESCAPES.get(text[1], text[:2])
    digits = text[2:6]
    if not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return 2, text[:2]
    return (6, chr(int(digits, 16))) if len(digits) == 4 else (0, "")
