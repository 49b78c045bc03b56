"""The built-in demo: a handful of plain requests, answered with real tool calls. No key, no network.

It gets what every model gets and nothing more, and it does not check whether a tool is offered: like other
models it tries, so that a newcomer sees a refusal and what can be done about it.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from interlock.models.demo_intents import (
    DemoIntent,
    DemoIntentKind,
    find_time_zone,
    is_chinese,
    parse_intent,
)
from interlock.models.demo_replies import DemoResult, describe_result, introduction, not_understood
from interlock.models.offline_models import (
    conversation_key,
    estimate_usage,
    offered_tool_names,
    stream_reply,
)
from interlock.models.provider import (
    AssistantMessage,
    ChatMessage,
    FinishReason,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    RequestedCall,
    ToolMessage,
    UserMessage,
)

_READ_FIRST = {"READ_REQUIRED", "STALE_READ"}
_MEANT_LITERALLY = re.compile(r"([\\.+*?()|\[\]{}^$])")
_CHOICES = re.compile(r"(?:choose|pick|decide)?\s*(?:between|among|from)\s+(.+)", re.IGNORECASE | re.DOTALL)
_SEPARATORS = re.compile(r"\s*(?:,|，|、|\bor\b|\band\b|还是|或者?)\s*", re.IGNORECASE)  # noqa: RUF001


class DemoProvider:
    @property
    def name(self) -> str:
        return "demo"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        for item in stream_reply(reply_to(request)):
            yield item
            # Let other tasks run between two deltas, as a network would.
            await asyncio.sleep(0)

    async def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Done:
    """A call of this task and its result."""

    name: str
    arguments: dict[str, Any]
    result: dict[str, Any]

    @property
    def is_ok(self) -> bool:
        return self.result.get("ok") is True

    @property
    def is_missing(self) -> bool:
        """A file was to be read and does not exist."""
        told = str(self.result.get("message", ""))
        return self.name == "read_file" and not self.is_ok and told.startswith("there is no ")


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    arguments: dict[str, Any]


def reply_to(request: ModelRequest) -> ModelReply:
    """A pure function of the conversation."""
    messages = request.messages
    users = [(at, each.text) for at, each in enumerate(messages) if isinstance(each, UserMessage)]
    asked, text = users[-1] if users else (len(messages), "")
    done = _done(messages[asked + 1 :])
    move = _next_move(text, done, offered_tool_names(request.tools))
    if isinstance(move, _Step):
        arguments = orjson.dumps(move.arguments).decode()
        call = RequestedCall(f"demo_{conversation_key(request)}", move.name, arguments)
        reply = ModelReply("", (call,), FinishReason.tool_calls)
    else:
        reply = ModelReply(move)
    return replace(reply, usage=estimate_usage(request, reply))


def _done(messages: Sequence[ChatMessage]) -> list[_Done]:
    results = {message.call_id: message.text for message in messages if isinstance(message, ToolMessage)}
    return [
        _Done(call.name, _object(call.arguments), _object(results[call.call_id], "stdout"))
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
        if call.call_id in results
    ]


def _object(text: str, otherwise: str = "text") -> dict[str, Any]:
    """A result that is not Interlock's envelope is used as plain text."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    return value if isinstance(value, dict) else {"ok": True, otherwise: text}


def _next_move(text: str, done: list[_Done], offered: frozenset[str]) -> _Step | str:
    chinese, intent = is_chinese(text), parse_intent(text)
    if intent.kind is DemoIntentKind.greeting:
        return introduction(chinese=chinese)
    if intent.kind is DemoIntentKind.unknown:
        return not_understood(chinese=chinese)
    step = _next_step(*_meant(intent, done), text, offered)
    if step is not None:
        return step
    last = done[-1]
    return describe_result(DemoResult(last.name, last.arguments, last.result, chinese))


def _meant(intent: DemoIntent, done: list[_Done]) -> tuple[DemoIntent, list[_Done]]:
    """After the first name of a file was not found, the other one, and the calls since."""
    if intent.or_path in ("", intent.path):
        return intent, done
    for number, each in enumerate(done, start=1):
        if each.is_missing and each.arguments.get("path") == intent.path:
            return replace(intent, path=intent.or_path, or_path=""), done[number:]
    return intent, done


def _next_step(intent: DemoIntent, done: list[_Done], text: str, offered: frozenset[str]) -> _Step | None:
    """The next call, or None if the last result is to be described."""
    goal, reading = _goal(intent, text, offered), _Step("read_file", {"path": intent.path})
    if not done:
        # An edit requires that the file was read.
        return reading if intent.kind is DemoIntentKind.editing else goal
    last = done[-1]
    if last.name == goal.name:
        has_read = any(each.name == reading.name for each in done)
        return reading if str(last.result.get("error_code")) in _READ_FIRST and not has_read else None
    return goal if last.name == reading.name and last.is_ok else None


def _goal(intent: DemoIntent, text: str, offered: frozenset[str]) -> _Step:
    match intent.kind:
        case DemoIntentKind.time:
            zone = find_time_zone(text)
            return _Step("current_time", {"timezone": zone} if zone else {})
        case DemoIntentKind.running:
            return _Step("bash" if "bash" in offered else "bash_readonly", {"cmd": intent.text})
        case DemoIntentKind.remembering:
            return _Step("memory_append", {"content": intent.text})
        case DemoIntentKind.recalling:
            return _Step("memory_search", {"query": intent.text})
        case DemoIntentKind.asking:
            return _Step("ask_user", _question(intent.text, chinese=is_chinese(text)))
        case _:
            return _goal_with_files(intent)


def _goal_with_files(intent: DemoIntent) -> _Step:
    path = {"path": intent.path} if intent.path else {}
    match intent.kind:
        case DemoIntentKind.listing:
            return _Step("list_files", path)
        case DemoIntentKind.searching:
            return _Step("search_files", path | {"pattern": _MEANT_LITERALLY.sub(r"\\\1", intent.text)})
        case DemoIntentKind.finding:
            return _Step("find_files", {"name_pattern": intent.text})
        case DemoIntentKind.writing:
            return _Step("write_file", path | {"content": f"{intent.text}\n"})
        case DemoIntentKind.appending:
            return _Step("write_file", path | {"content": f"{intent.text}\n", "mode": "append"})
        case DemoIntentKind.editing:
            return _Step("edit_file", path | {"find": intent.text, "replace": intent.other})
        case _:
            return _Step("read_file", path)


def _question(text: str, *, chinese: bool) -> dict[str, Any]:
    """A choice if several things are named, a yes or no if something is asked, else a fixed question."""
    wanted = text.strip(" ?？.。:：")  # noqa: RUF001
    named = _CHOICES.search(wanted)
    listed = re.sub(r"\A(?:要|选|喝|吃|在)\s*", "", wanted) if chinese else named[1] if named else ""
    options = [part for part in _SEPARATORS.split(listed) if part]
    if len(options) > 1:
        message = "请选择：" if chinese else "Which one?"  # noqa: RUF001
        return {
            "type": "selection",
            "message": message,
            "options": [{"value": option[:100]} for option in dict.fromkeys(options)],
        }
    about = re.sub(r"\A(?:whether|if|to confirm(?: that)?|是否)\s*", "", wanted, flags=re.IGNORECASE)
    if about and about.lower() not in {"a question", "something", "一个问题"}:
        return {"type": "confirmation", "message": f"{about}?"}
    message = "演示一切正常吗？" if chinese else "Does the demo work for you?"  # noqa: RUF001
    return {"type": "confirmation", "message": message}
