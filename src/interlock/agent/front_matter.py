"""Front matter: lines `key: value` between two lines `---`, read into a pydantic model.

There is no nesting: a dotted key takes one line, as with `interlock settings set`. Indentation means
nothing, and a value's type follows from its key, never from its form. Every problem has its line; a file
with any is not loaded, because part of a policy would be wider than the whole.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from interlock.agent.regular_files import InvalidFile, strip_comments
from interlock.core.text import safe_excerpt
from interlock.core.validation_faults import describe_fault
from interlock.policy.policy_fields import FIELDS, NO_RESTRICTION, ToolPolicy, unknown_tools
from interlock.policy.verdict import PolicyLayer

FENCE = "---"

_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*:(?:[ \t]+(.*))?")
_BLOCKS = frozenset({"|", ">", "|-", ">-", "|+", ">+"})
_ITEM = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


@dataclass(frozen=True, slots=True)
class DefinitionProblem:
    """A problem in a file of an agent or a workflow. A text that names a key path needs no line."""

    file: str
    text: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.text}" if self.line is None else f"{self.file}:{self.line}: {self.text}"


class Header(BaseModel):
    """The keys that the files of agents and steps share: one layer of the tool policy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layer: ClassVar[PolicyLayer]
    tools: ToolPolicy = NO_RESTRICTION


HeaderModel = TypeVar("HeaderModel", bound=Header)


@dataclass(frozen=True, slots=True)
class HeadedFile(Generic[HeaderModel]):
    """A file's header and body. `header` has the sound keys only, and is None without its required ones."""

    header: HeaderModel | None
    body: str
    problems: tuple[DefinitionProblem, ...]


def header_keys(model: type[Header]) -> tuple[str, ...]:
    policy = (f"tools.{path}" for path, field in FIELDS.items() if model.layer in field.declared.set_by)
    return (*(name for name in model.model_fields if name != "tools"), *policy)


def read_headed_file(
    file: str,
    text: str,
    model: type[HeaderModel],
    known_tools: Collection[str] | None,
    *,
    no_body: str,
    context: object = None,
    is_header_optional: bool = False,
) -> HeadedFile[HeaderModel]:
    """Read a file with all its problems. Without `known_tools`, denied tools need not exist."""
    problems: list[tuple[int, str]] = []
    try:
        is_bare = is_header_optional and not text.startswith(FENCE)
        entries, body, body_line = ({}, text, 1) if is_bare else _split(text, problems)
    except InvalidFile as unfit:
        return HeadedFile(None, "", (DefinitionProblem(file, unfit.reason, unfit.line),))
    values: dict[str, Any] = {}
    for key, (value, line) in entries.items():
        try:
            values[key] = _value(key, value, header_keys(model))
        except ValueError as error:
            problems.append((line, str(error)))
    header, faults = _validated(model, values, context)
    problems += [(entries[key][1] if key in entries else 1, text) for key, text in faults.items()]
    if header is not None and known_tools is not None:
        for tool in unknown_tools(header.tools.denied_tools, known_tools):
            # Tools of MCP servers (server__tool) are known only while the server runs.
            if "__" not in tool:
                problems.append((entries["tools.denied_tools"][1], _unknown_tool(tool, known_tools)))
    if not (stripped := strip_comments(body)):
        problems.append((body_line, no_body))
    problems.sort(key=lambda problem: problem[0])
    found = (DefinitionProblem(file, text, line) for line, text in problems)
    return HeadedFile(header, stripped, tuple(found))


# -- lines ---------------------------------------------------------------------------------------------


def _split(text: str, problems: list[tuple[int, str]]) -> tuple[dict[str, tuple[str, int]], str, int]:
    """The values with their lines by key, the body, and the body's line."""
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        raise InvalidFile(
            f"has no front matter: the first line must be {FENCE}, and a second {FENCE} must end it"
        )
    end = next((number for number in range(1, len(lines)) if lines[number].rstrip() == FENCE), None)
    if end is None:
        raise InvalidFile(f"has front matter without an end: a second line {FENCE} is missing")
    entries: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines[1:end], start=2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            key, value = _entry(line)
            if key in entries:
                raise ValueError(f"{key} occurs twice; the first is on line {entries[key][1]}")
            entries[key] = value, number
        except ValueError as error:
            problems.append((number, str(error)))
    return entries, "\n".join(lines[end + 1 :]), end + 2


def _entry(line: str) -> tuple[str, str]:
    if line[0] in " \t" or line.startswith("- "):
        raise ValueError("nested keys are not supported; use dots, as in tools.fs.enabled: false")
    found = _ENTRY.fullmatch(line.rstrip())
    if found is None:
        raise ValueError("this line is not of the form key: value")
    key, value = found[1], (found[2] or "").strip()
    if value in _BLOCKS:
        raise ValueError(f"{key} must be on one line; put longer text below the front matter")
    if (quote := value[:1]) in {'"', "'"}:
        if len(value) < 2 or value[-1] != quote or quote in value[1:-1]:
            raise ValueError(f"the quotes around the value of {key} do not match")
        value = value[1:-1]
    return key, value


# -- values --------------------------------------------------------------------------------------------


def _value(key: str, text: str, known: Collection[str]) -> Any:
    if key == "tools":
        raise ValueError("tools is a group; write a full key with dots, as in tools.fs.enabled: false")
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1) or difflib.get_close_matches(
            f"tools.{key}", known, n=1, cutoff=0.7
        )
        hint = f"; did you mean {near[0]}?" if near else f" (valid: {', '.join(known)})"
        raise ValueError(f"there is no key {safe_excerpt(key, 80)}{hint}")
    try:
        field = FIELDS.get(key.removeprefix("tools."))
        return _READERS[field.kind.editor](text) if field is not None and key.startswith("tools.") else text
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None


def _validated(
    model: type[HeaderModel], values: dict[str, Any], context: object
) -> tuple[HeaderModel | None, dict[str, str]]:
    """The model of the sound values, and by key the first problem of each other one."""
    problems: dict[str, str] = {}
    try:
        return model.model_validate(_nested(values), context=context), problems
    except ValidationError as error:
        for each in error.errors(include_url=False):
            path = ".".join(map(str, each["loc"]))
            key = next((key for key in values if path == key or path.startswith(f"{key}.")), path)
            reason = each.get("ctx", {}).get("error")
            if reason is None or key.startswith("tools."):
                problems.setdefault(key, f"{key}: {describe_fault(each) or each['msg']}")
            else:
                problems.setdefault(key, f"{key} {reason}")
    sound = {key: value for key, value in values.items() if key not in problems}
    try:
        return model.model_validate(_nested(sound), context=context), problems
    except ValidationError:
        return None, problems


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *groups, last = key.split(".")
        table = nested
        for group in groups:
            table = table.setdefault(group, {})
        table[last] = value
    return nested


def _unknown_tool(name: str, known_tools: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known_tools), n=1)
    return f"there is no tool {name}" + (f"; did you mean {near[0]}?" if near else "")


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


def _reader(pattern: str, what: str, convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"must be {what}, not '{safe_excerpt(text, 40)}'")
        return convert(text)

    return read


_number = _reader("[0-9]{1,18}", "a whole number", int)
# By the kind of the field.
_READERS: dict[str, Callable[[str], Any]] = {
    "switch": _reader("true|false", "true or false", "true".__eq__),
    "bytes": _number,
    "seconds": _reader(r"[0-9]{1,9}(\.[0-9]{1,6})?", "a number of seconds", float),
    "choice": str,
    "tools": lambda text: frozenset(split_list(text)),
    "servers": lambda text: frozenset(split_list(text)),
    "ports": lambda text: frozenset(map(_number, split_list(text))),
}
