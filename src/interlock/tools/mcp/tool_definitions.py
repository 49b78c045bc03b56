"""A tool as its server describes it, its pinned hash, and whether it can be used."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from interlock.core.text import to_json_value
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.schema_checks import (
    UnusableSchema,
    checked_schema,
    refuse_large_schema,
    refuse_unsafe_schema,
)
from interlock.tools.mcp.tool_names import (
    MAX_FOREIGN_NAME_CHARS,
    clashing_names,
    has_hidden_characters,
    to_visible_line,
)

MAX_TOOLS = 200
MAX_DESCRIPTION_CHARS = 4_000
NAME_CLASH = "its name here would clash with another tool's"
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True)
class McpToolDefinition:
    """The definition as received. A class is pinned to `hash`."""

    name: str
    description: str
    schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    hints: Mapping[str, bool]
    hash: str

    @property
    def shown_description(self) -> str:
        return to_visible_line(self.description, MAX_DESCRIPTION_CHARS)

    @property
    def suggested_effect(self) -> str:
        """A suggestion by the server's own hints, which are untrusted."""
        return "read" if self.hints.get("readOnlyHint") is True else "write"

    def as_dict(self) -> dict[str, Any]:
        return {
            "description": self.description,
            "schema": dict(self.schema),
            "output_schema": None if self.output_schema is None else dict(self.output_schema),
            "hints": dict(self.hints),
        }


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool of a listing. `problem` says why it is unusable; then its definition is not kept."""

    name: str
    definition: McpToolDefinition | None
    hash: str
    problem: str = ""


def make_definition(
    name: str, description: str, schema: Any, output_schema: Any, hints: Mapping[str, Any]
) -> McpToolDefinition:
    """Build a definition; `ValueError` if it is not JSON."""
    pinned = {"name": name, "description": description, "input": schema, "output": output_schema}
    # The same definition always gives the same hash.
    text = json.dumps(pinned, sort_keys=True, separators=(",", ":"))
    known = {hint: hints[hint] for hint in _HINTS if isinstance(hints.get(hint), bool)}
    return McpToolDefinition(
        name, description, schema, output_schema, known, sha256(text.encode()).hexdigest()
    )


def check_listing(
    server: str, found: Iterable[McpToolDefinition], redactor: Redactor, taken: Iterable[str] = ()
) -> list[ListedTool]:
    """The usable tools of a listing, and for the others the reason, by name."""
    by_name: dict[str, list[McpToolDefinition]] = {}
    for definition in found:
        by_name.setdefault(definition.name, []).append(definition)
    doubles = clashing_names(server, by_name, taken)
    listed = [
        _listed(name, same, NAME_CLASH if name in doubles else "", redactor)
        for name, same in sorted(by_name.items())
        if _can_be_named(name) and redactor.text(name) == name
    ]
    return listed[:MAX_TOOLS]


def _can_be_named(name: str) -> bool:
    return (
        0 < len(name) <= MAX_FOREIGN_NAME_CHARS and name.isprintable() and not has_hidden_characters(name)
    )


def _listed(name: str, same: list[McpToolDefinition], problem: str, redactor: Redactor) -> ListedTool:
    first = same[0]
    if not problem and len(same) > 1:
        problem = "the server lists it more than once"
    problem = problem or definition_problem(first)
    # The stored definition must equal the checked one; one that cannot be stored is faulty.
    if not problem and to_json_value(first.as_dict()) != first.as_dict():
        problem = "its definition contains characters or numbers that cannot be stored"
    if not problem and redactor.checked(first.as_dict()).changed:
        problem = "its definition contains something that looks like a secret"
    return ListedTool(name, None if problem else first, first.hash, problem)


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
