"""A tool as its server describes it, its pinned hash, its class, and whether it can be used.

A tool keeps to a mode because the sandbox enforces it, not because its server says so. So a class may name
a mode besides `coding` only for a tool that reads, and only if the server's sandbox is no wider than that
mode's; otherwise the person at the command line must vouch for it. What the server's annotations claim is
at most a proposal, which a person confirms.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import sha256
from typing import Annotated, Any

from pydantic import PlainSerializer, TypeAdapter

from interlock.config.modes import ToolMode, parse_mode
from interlock.core.errors import BadUsage
from interlock.core.text import escape_invisible, has_hidden_characters, to_json_value, to_visible_line
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.schema import (
    UnusableSchema,
    checked_schema,
    refuse_large_schema,
    refuse_unsafe_schema,
)
from interlock.tools.mcp.server import McpServerConfig
from interlock.tools.tool import Effect, ToolGroup

MAX_TOOLS = 200
MAX_DESCRIPTION_CHARS = 4_000
MAX_TITLE_CHARS = 200
MAX_NAME_CHARS = 64
# A longer one is not a name; nothing of it is kept.
MAX_FOREIGN_NAME_CHARS = 256
# Of a diff: the lines of a field that are compared, and those that are shown.
MAX_COMPARED_LINES = 200
MAX_DIFF_LINES = 120
DIFF_COLUMNS = 100
NAME_CLASH = "its name here would clash with another tool's"
_HASH_CHARS = 10
_SENTENCE_END = re.compile(r"(?<=[.!?])(?= )")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_EFFECTS = (Effect.read, Effect.write, Effect.exec, Effect.special)
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


# -- names --


def exposed_name(server: str, tool: str) -> str:
    """`server__tool`. A name that does not fit keeps its beginning and gets a hash of all of it."""
    whole = f"{server}__{tool}"
    fitting = _UNFIT.sub("_", whole)
    if fitting == whole and tool and len(whole) <= MAX_NAME_CHARS:
        return whole
    digest = sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{fitting[: MAX_NAME_CHARS - _HASH_CHARS - 1]}_{digest}"


def clashing_names(server: str, tools: Iterable[str], taken: Iterable[str] = ()) -> frozenset[str]:
    """The tools whose exposed name another one has as well: they cannot be distinguished."""
    names = {tool: exposed_name(server, tool) for tool in set(tools)}
    counted, others = Counter(names.values()), set(taken)
    return frozenset(tool for tool, name in names.items() if counted[name] > 1 or name in others)


# -- definitions --


@dataclass(frozen=True, slots=True)
class McpToolDefinition:
    """The definition as received. A class is pinned to `hash`."""

    name: str
    description: str
    schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    hints: Mapping[str, bool]
    hash: str
    title: str = ""

    @property
    def shown_description(self) -> str:
        return to_visible_line(self.description, MAX_DESCRIPTION_CHARS)

    @property
    def suggested_effect(self) -> str:
        """A suggestion by the server's own hints: `read` only if they do not contradict that."""
        reads = self.hints.get("readOnlyHint") is True and self.hints.get("destructiveHint") is not True
        return Effect.read.value if reads else Effect.write.value

    def as_dict(self) -> dict[str, Any]:
        """Everything but the name and the hash, as it is stored."""
        stored: dict[str, Any] = _DEFINITION.dump_python(self, exclude={"name", "hash"})
        return stored


_DEFINITION = TypeAdapter(McpToolDefinition)


def make_definition(
    name: str,
    description: str,
    schema: Any,
    output_schema: Any,
    hints: Mapping[str, Any],
    title: str = "",
) -> McpToolDefinition:
    """Build a definition; `ValueError` if it is not JSON. The same one always gives the same hash."""
    known = {hint: hints[hint] for hint in _HINTS if isinstance(hints.get(hint), bool)}
    # Whole or not at all: half a secret would not be recognised as one.
    title = title if len(title) <= MAX_TITLE_CHARS else f"({len(title)} characters)"
    pinned = {"name": name, "description": description, "input": schema, "output": output_schema}
    if known or title:
        pinned |= {"hints": known, "title": title}
    digest = sha256(json.dumps(pinned, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return McpToolDefinition(name, description, schema, output_schema, known, digest, title)


def definition_problem(definition: McpToolDefinition) -> str:
    """Why it cannot be used; empty if it can."""
    try:
        checked_schema(definition.schema)
        if definition.output_schema is not None:
            refuse_large_schema(definition.output_schema)
            refuse_unsafe_schema(dict(definition.output_schema))
    except UnusableSchema as error:
        return str(error)
    if len(definition.description) > 4 * MAX_DESCRIPTION_CHARS:
        return f"its description is longer than {4 * MAX_DESCRIPTION_CHARS} characters"
    return ""


# -- classes --


@dataclass(frozen=True, slots=True)
class ToolClassification:
    """A class, for the definition with this hash. `vouched`: only a person's word backs it."""

    group: ToolGroup
    effect: Effect
    modes: Annotated[
        frozenset[ToolMode],
        PlainSerializer(lambda modes: [mode.value for mode in ToolMode if mode in modes], return_type=list),
    ]
    hash: str
    vouched: bool = False
    by: str = ""

    def as_dict(self) -> dict[str, Any]:
        stored: dict[str, Any] = CLASSIFICATION.dump_python(self, mode="json")
        return stored

    def is_same_as(self, other: "ToolClassification | None") -> bool:
        """Whether both allow the same. Who gave them does not count."""
        return other is not None and self.as_dict() | {"by": other.by} == other.as_dict()


CLASSIFICATION = TypeAdapter(ToolClassification)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyRequest:
    """A person's request. `hash`, or its beginning, is of the definition they reviewed."""

    effect: str
    modes: Iterable[str]
    group: str = ToolGroup.mcp.value
    hash: str = ""
    is_vouched: bool = False
    # They reviewed it as a tool without a class: refused if another person has classified it since.
    only_if_waiting: bool = False


def make_tool_class(
    request: ClassifyRequest, server: McpServerConfig, definition_hash: str, who: str
) -> ToolClassification:
    try:
        modes = frozenset(parse_mode(mode.strip()) for mode in request.modes)
        group = ToolGroup(request.group)
    except ValueError as error:
        raise BadUsage(str(error)) from None
    if request.effect not in _EFFECTS:
        raise BadUsage(f"'{request.effect}' is not a valid effect; use one of {', '.join(_EFFECTS)}")
    if not modes:
        raise BadUsage(
            "name at least one mode; to remove a classification: interlock mcp remove SERVER TOOL"
        )
    effect, beyond = Effect(request.effect), modes - {ToolMode.coding}
    if beyond and effect is not Effect.read:
        raise BadUsage(
            f"a tool with the effect {effect} is allowed only in coding mode: "
            f"{_names(beyond)} is for reading"
        )
    unfitting = beyond - server.fitting_modes()
    if unfitting and not request.is_vouched:
        raise BadUsage(
            f"{_names(unfitting)}: {server.why_unfitting()}, so nothing enforces the limits of that mode. "
            "Classify it for coding, or vouch for it at the command line with --vouch"
        )
    return ToolClassification(group, effect, modes, definition_hash, request.is_vouched, who)


def _names(modes: frozenset[ToolMode]) -> str:
    return ", ".join(mode.value for mode in ToolMode if mode in modes)


# -- tools as listed --


@dataclass(frozen=True, slots=True)
class StoredMcpTool:
    """A tool as last listed, and its class. The class applies while its hash is the definition's.

    `problem` says why it is unusable; then its definition is not kept. `reviewed` is the definition that
    was classified, once another has replaced it.
    """

    name: str
    hash: str
    definition: McpToolDefinition | None
    problem: str = ""
    is_listed: bool = True
    given: ToolClassification | None = None
    reviewed: McpToolDefinition | None = None

    @property
    def state(self) -> str:
        """The state in one word, as `mcp inspect` and the page show it."""
        if not self.is_listed:
            return "gone"
        if self.problem:
            return "unusable"
        if self.given is None:
            return "unclassed"
        return "classed" if self.given.hash == self.hash else "changed"


def check_listing(
    server: str, found: Iterable[McpToolDefinition], redactor: Redactor, taken: Iterable[str] = ()
) -> list[StoredMcpTool]:
    """The tools of a listing by name; what cannot be used has a reason."""
    by_name: dict[str, list[McpToolDefinition]] = {}
    for definition in found:
        by_name.setdefault(definition.name, []).append(definition)
    doubles = clashing_names(server, by_name, taken)
    listed = [
        _listed(same, NAME_CLASH if name in doubles else "", redactor)
        for name, same in sorted(by_name.items())
        if 0 < len(name) <= MAX_FOREIGN_NAME_CHARS
        and name.isprintable()
        and not has_hidden_characters(name)
        and redactor.text(name) == name
    ]
    return listed[:MAX_TOOLS]


def _listed(same: list[McpToolDefinition], problem: str, redactor: Redactor) -> StoredMcpTool:
    first = same[0]
    if not problem and len(same) > 1:
        problem = "the server lists it more than once"
    problem = problem or definition_problem(first)
    # The stored definition must equal the checked one; one that cannot be stored is faulty.
    if not problem and to_json_value(first.as_dict()) != first.as_dict():
        problem = "its definition contains characters or numbers that cannot be stored"
    if not problem and redactor.checked(first.as_dict()).changed:
        problem = "its definition contains something that looks like a secret"
    return StoredMcpTool(first.name, first.hash, None if problem else first, problem)


# -- what annotations propose --


def proposed_class(server: McpServerConfig, tool: StoredMcpTool) -> ToolClassification | None:
    """A class for a tool that waits for one, from its server's claims; None where a person must decide.

    A claim never widens what a person confirmed for an earlier definition: that is met with it.
    """
    if tool.definition is None or tool.state not in {"unclassed", "changed"}:
        return None
    group, effect = ToolGroup.mcp, Effect(tool.definition.suggested_effect)
    reaches_out = tool.definition.hints.get("openWorldHint") is True
    is_narrow = effect is not Effect.read or reaches_out
    modes = frozenset({ToolMode.coding}) if is_narrow else server.fitting_modes()
    if tool.given is not None:
        group, modes = tool.given.group, modes & tool.given.modes
        effect = effect if tool.given.effect is Effect.read else tool.given.effect
        modes = modes if effect is Effect.read else modes & {ToolMode.coding}
    return ToolClassification(group, effect, modes, tool.hash) if modes else None


# -- what changed --


def definition_changes(tool: StoredMcpTool, redactor: Redactor) -> list[dict[str, Any]]:
    """What differs between the classified definition and the present one, by field, as unified diffs.

    Redacted before it is cut into lines, without invisible characters, and of bounded length. Empty if the
    earlier definition is not known.
    """
    before, after = tool.reviewed, tool.definition
    if tool.state != "changed" or before is None or after is None:
        return []
    fields = (
        ("title", before.title, after.title),
        ("description", before.description, after.description),
        ("schema", before.schema, after.schema),
        ("output_schema", before.output_schema, after.output_schema),
        ("hints", before.hints, after.hints),
    )
    return [
        {"field": name, "diff": _diff(_lines(old, redactor), _lines(new, redactor))}
        for name, old, new in fields
        # As text: for Python, 1 equals true.
        if json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True)
    ]


def _lines(value: Any, redactor: Redactor) -> list[str]:
    """A text, or JSON, in short lines: a diff then shows where a long one differs."""
    if not value:
        return []
    text = redactor.text(value) if isinstance(value, str) else ""
    text = text or json.dumps(redactor.value(value), indent=2, sort_keys=True, ensure_ascii=False)
    sentences = (sentence for line in text.split("\n") for sentence in _SENTENCE_END.split(line))
    return [
        escape_invisible(sentence[start : start + DIFF_COLUMNS])
        for sentence in sentences
        for start in range(0, len(sentence) or 1, DIFF_COLUMNS)
    ]


def _diff(old: list[str], new: list[str]) -> list[str]:
    """Lines that begin with '-', '+' or ' '; those with '@@' are ours. Bounded: hostile texts take long."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    start = max(0, same - 3)
    compared = slice(start, start + MAX_COMPARED_LINES)
    # The first two lines name files.
    lines = list(unified_diff(old[compared], new[compared], lineterm=""))[2:]
    shown = ["@@" if line.startswith("@@") else line for line in lines]
    if not shown:
        return ["@@ it differs only in what is redacted"]
    if len(shown) > MAX_DIFF_LINES or max(len(old), len(new)) > compared.stop:
        shown = [*shown[:MAX_DIFF_LINES], "@@ there may be more changes; read the whole definition"]
    return shown
