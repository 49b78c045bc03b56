"""The tool keys of front matter, and their values, as one layer of the policy.

Agent files and workflow steps share these keys. An unreadable value is a fault, and files with faults are
not loaded: part of a policy would be wider than the whole.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from interlock.agent.front_matter import FrontMatterEntry, FrontMatterFault
from interlock.core.text import safe_excerpt
from interlock.policy.policy_fields import NO_RESTRICTION, ToolPolicy, merge_tool_policies
from interlock.sessions.runtime_settings import patch_for

_ITEM = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


def read_tool_policy(
    entries: Iterable[FrontMatterEntry], known_tools: Collection[str]
) -> tuple[ToolPolicy, list[FrontMatterFault]]:
    """Read the policy: each line is one policy, and their merge is the file's."""
    faults: list[FrontMatterFault] = []
    policies = [_policy(entry, known_tools, faults) for entry in entries if entry.key in TOOL_KEYS]
    return merge_tool_policies(*policies), faults


def _policy(
    entry: FrontMatterEntry, known_tools: Collection[str], faults: list[FrontMatterFault]
) -> ToolPolicy:
    try:
        value = _TOOL_VALUES[entry.key](entry.value)
        policy = ToolPolicy.model_validate(patch_for(entry.key.removeprefix("tools."), value))
    except ValidationError as error:
        faults.append(
            FrontMatterFault(entry.line, f"{entry.key}: {error.errors(include_url=False)[0]['msg']}")
        )
    except ValueError as error:
        faults.append(FrontMatterFault(entry.line, f"{entry.key} {error}"))
    else:
        unknown = [_unknown_tool(tool, known_tools) for tool in sorted(policy.denied_tools)]
        faults.extend(FrontMatterFault(entry.line, text) for text in unknown if text)
        return policy
    return NO_RESTRICTION


def _unknown_tool(name: str, known_tools: Collection[str]) -> str:
    # Tools of MCP servers (server__tool) are known only while the server runs.
    if name in known_tools or "__" in name:
        return ""
    near = difflib.get_close_matches(name, sorted(known_tools), n=1)
    return f"there is no tool {name}" + (f"; did you mean {near[0]}?" if near else "")


def unknown_key_message(key: str, known: Collection[str]) -> str:
    """The message for an unknown key."""
    if key == "tools":
        return "tools is a group; write a full key with dots, as in tools.fs.enabled: false"
    near = difflib.get_close_matches(key, known, n=1) or difflib.get_close_matches(
        f"tools.{key}", known, n=1, cutoff=0.7
    )
    hint = f"; did you mean {near[0]}?" if near else f" (valid: {', '.join(known)})"
    return f"there is no key {safe_excerpt(key, 80)}{hint}"


# -- values --------------------------------------------------------------------------------------------


def _switch(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"must be true or false, not '{safe_excerpt(text, 40)}'")
    return text == "true"


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(f"must be a whole number, not '{safe_excerpt(text, 40)}'")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text):
        raise ValueError(f"must be a number of seconds, not '{safe_excerpt(text, 40)}'")
    return float(text)


def split_list(text: str) -> Iterator[str]:
    """Split a list `a, b` or `[a, b]`; the empty list is `[]`."""
    is_bracketed = text.startswith("[") and text.endswith("]")
    inner = text[1:-1].strip() if is_bracketed else text
    if not inner and is_bracketed:
        return
    for part in inner.split(","):
        word = part.strip()
        if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'":
            word = word[1:-1]
        if not _ITEM.fullmatch(word):
            raise ValueError(f"must be a comma-separated list, not '{safe_excerpt(text, 80)}'")
        yield word


def _names(text: str) -> frozenset[str]:
    return frozenset(split_list(text))


def _numbers(text: str) -> frozenset[int]:
    return frozenset(_number(word) for word in split_list(text))


_TOOL_VALUES: dict[str, Callable[[str], Any]] = {
    "tools.fs.enabled": _switch,
    "tools.fs.max_read_bytes": _number,
    "tools.fs.max_write_bytes": _number,
    "tools.shell.enabled": _switch,
    "tools.shell.network": _switch,
    "tools.shell.ports": _numbers,
    "tools.mcp.enabled": _switch,
    "tools.mcp.allowed_servers": _names,
    "tools.memory.enabled": _switch,
    "tools.image.enabled": _switch,
    "tools.image.max_bytes": _number,
    "tools.max_timeout_seconds": _seconds,
    "tools.denied_tools": _names,
}
TOOL_KEYS = tuple(_TOOL_VALUES)
