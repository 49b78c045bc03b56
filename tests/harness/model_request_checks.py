"""What a strict provider refuses in a chat request, each fault as a sentence."""

import re
from typing import Any

_FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# OpenAI refuses longer ones, though others give them out.
_MAX_CALL_ID = 40
_ROLES = {"system", "user", "assistant", "tool"}


def request_faults(body: Any, decode) -> list[str]:
    """Everything wrong with a request's document. `decode` reads a JSON text or raises ValueError."""
    if not isinstance(body, dict):
        return ["the body is not an object"]
    faults = []
    if not isinstance(body.get("model"), str) or not body["model"]:
        faults.append("there is no model")
    if body.get("stream") is not True:
        faults.append("it does not ask for a stream")
    if "max_tokens" in body and (type(body["max_tokens"]) is not int or body["max_tokens"] < 1):
        faults.append("max_tokens is no positive number")
    faults += _tool_faults(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*faults, "there are no messages"]
    return faults + message_faults(messages, decode)


def _tool_faults(body: dict[str, Any]) -> list[str]:
    if "tools" not in body:
        return ["tool_choice without tools"] if "tool_choice" in body else []
    tools, faults = body["tools"], []
    if not isinstance(tools, list) or not tools:
        return ["tools is no list, or empty"]
    if body.get("tool_choice", "auto") not in ("auto", "required", "none"):
        faults.append(f"tool_choice is {body['tool_choice']!r}")
    names = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            faults.append("a tool is no function")
            continue
        names.append(function.get("name"))
        if not _is_name(function.get("name")):
            faults.append(f"a tool is named {function.get('name')!r}")
        parameters = function.get("parameters")
        if not isinstance(parameters, dict) or parameters.get("type") != "object":
            faults.append(f"the parameters of {function.get('name')} are no object schema")
    if len(names) != len(set(names)):
        faults.append("two tools have the same name")
    return faults


def message_faults(messages: list[Any], decode) -> list[str]:
    """Roles in order; each tool call answered by exactly one tool message, and by nothing else before."""
    faults: list[str] = []
    awaited: set[str] = set()
    before = ""
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            return [*faults, f"message {number} has the role {role!r}"]
        where = f"message {number} ({role})"
        if role == "tool":
            faults += _answer_faults(message, awaited, where)
        else:
            faults += [f"the call {call} has no answer before {where}" for call in sorted(awaited)]
            awaited = set()
            faults += _order_faults(role, before, where)
            if role == "assistant":
                awaited, found = _assistant(message, where, decode)
                faults += found
            elif not isinstance(message.get("content"), str) or not message["content"]:
                faults.append(f"{where} has no text")
        before = role
    faults += [f"the call {call} has no answer" for call in sorted(awaited)]
    if before not in ("user", "tool"):
        faults.append(f"the last message is of the role {before}")
    return faults


def _order_faults(role: str, before: str, where: str) -> list[str]:
    if role == "system" and before:
        return [f"{where} is not the first"]
    if role == "assistant" and before in ("", "system", "assistant"):
        return [f"{where} follows {before or 'nothing'}"]
    return []


def _answer_faults(message: dict[str, Any], awaited: set[str], where: str) -> list[str]:
    call = message.get("tool_call_id")
    if not isinstance(message.get("content"), str):
        return [f"{where} has no text"]
    if call not in awaited:
        return [f"{where} answers {call!r}, which is not open"]
    awaited.remove(call)
    return []


def _assistant(message: dict[str, Any], where: str, decode) -> tuple[set[str], list[str]]:
    calls, faults = message.get("tool_calls"), []
    if calls is None:
        is_text = isinstance(message.get("content"), str)
        return set(), [] if is_text else [f"{where} has neither text nor calls"]
    if not isinstance(calls, list) or not calls:
        return set(), [f"{where} has an empty list of calls"]
    awaited: set[str] = set()
    for call in calls:
        identity, function = call.get("id"), call.get("function", {})
        if not isinstance(identity, str) or not identity or identity in awaited:
            faults.append(f"{where} has the call id {identity!r}, empty or twice")
            continue
        if len(identity) > _MAX_CALL_ID:
            faults.append(f"{where} has a call id of {len(identity)} characters")
        awaited.add(identity)
        if call.get("type") != "function" or not _is_name(function.get("name")):
            faults.append(f"{where} calls {function.get('name')!r}, which is no function's name")
        faults += _argument_faults(function.get("arguments"), where, decode)
    return awaited, faults


def _argument_faults(arguments: Any, where: str, decode) -> list[str]:
    try:
        if isinstance(arguments, str) and isinstance(decode(arguments), dict):
            return []
    except ValueError:
        pass
    return [f"{where} has arguments that are no JSON object"]


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _FUNCTION_NAME.fullmatch(name) is not None
