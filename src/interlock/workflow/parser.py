"""Parses the files of a workflow, and reports each fault with its line.

All faults are collected. A file with any is not loaded: part of a policy would be wider than the whole.
"""

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from interlock.agent.definitions import DefinitionProblem
from interlock.agent.front_matter import FrontMatterDocument, FrontMatterEntry, parse_front_matter
from interlock.agent.regular_files import InvalidFile, strip_comments
from interlock.agent.tool_policy_keys import TOOL_KEYS, read_tool_policy, split_list, unknown_key_message
from interlock.config.modes import ToolMode, parse_mode
from interlock.core.text import safe_excerpt
from interlock.workflow.conditions import EdgeCondition, InvalidCondition, parse_condition
from interlock.workflow.graph import (
    DEFAULT_MAX_STEPS,
    DEFAULT_MAX_VISITS,
    NodeKind,
    StepBrief,
    Workflow,
    WorkflowEdge,
    WorkflowNode,
)
from interlock.workflow.toml_locations import TomlLocations, find_overlong_key, locate_toml_error

GRAPH_FILE = "workflow.toml"
SUFFIX = ".md"
MAX_NODES, MAX_EDGES = 200, 1000
MAX_LINE_CHARS = 300
HIGHEST_VISITS, HIGHEST_STEPS = 100, 1000

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_ -]{0,39}")
# Names with another meaning in conditions, which no node may have.
RESERVED = frozenset({"run", "artifacts", "and", "or", "not", "true", "false", "null"})

_TOP_KEYS = ("description", "start", "agent", "max_steps", "nodes", "edges")
_NODE_KEYS = ("kind", "title", "max_visits", "workflow", "outcome")
_EDGE_KEYS = ("from", "to", "label", "default", "condition")
_BRIEF_KEYS = ("agent", "mode", "outcomes", *TOOL_KEYS)

Found = TypeVar("Found", str, int, bool)


@dataclass(slots=True)
class WorkflowParser:
    """Parses one workflow's files. `problems` collects all faults."""

    name: str
    known_tools: Collection[str]
    problems: list[DefinitionProblem] = field(default_factory=list)

    def workflow(self, graph: str, files: Mapping[str, str]) -> Workflow | None:
        """Parse the workflow; None if the graph is unreadable. With problems it must not be used."""
        if (line := find_overlong_key(graph)) is not None:
            self.fault(GRAPH_FILE, line, "a name in this file has too many dots")
            return None
        try:
            document = tomllib.loads(graph)
        except tomllib.TOMLDecodeError as error:
            line, reason = locate_toml_error(error, graph)
            self.fault(GRAPH_FILE, line, f"the file is not TOML: {reason}")
            return None
        except (RecursionError, ValueError):
            self.fault(GRAPH_FILE, 1, "the file cannot be parsed as TOML")
            return None
        return _Graph(self, document, TomlLocations(graph), files).workflow()

    def fault(self, file: str, line: int, text: str) -> None:
        self.problems.append(DefinitionProblem(file, line, text))


class _Graph:
    def __init__(
        self,
        reading: WorkflowParser,
        document: Mapping[str, Any],
        places: TomlLocations,
        files: Mapping[str, str],
    ) -> None:
        self._reading = reading
        self._document = document
        self._places = places
        self._files = files

    def workflow(self) -> Workflow:
        top = self._document
        self._known_keys((), top, _TOP_KEYS)
        description = self._value((), top, "description", str, "")
        if not description.strip():
            self._fault(("description",), "description is missing: describe the workflow's purpose")
        nodes = self._nodes()
        start = self._value((), top, "start", str, "")
        if start not in nodes:
            self._fault(("start",), f"start must name a node{_near(start, nodes)}")
        self._stray_files(nodes)
        return Workflow(
            name=self._reading.name,
            description=" ".join(description.split())[:MAX_LINE_CHARS],
            start=start,
            nodes=nodes,
            edges=self._edges(nodes),
            agent=self._value((), top, "agent", str, "") or None,
            max_steps=self._count((), top, "max_steps", DEFAULT_MAX_STEPS, HIGHEST_STEPS),
            agent_line=self._places.line("agent"),
        )

    # -- nodes --

    def _nodes(self) -> dict[str, WorkflowNode]:
        tables = self._document.get("nodes")
        if not isinstance(tables, dict) or not tables:
            self._fault(("nodes",), "there are no nodes: write a table [nodes.NAME] for each")
            return {}
        if len(tables) > MAX_NODES:
            self._fault(("nodes",), f"there are {len(tables)} nodes; the limit is {MAX_NODES}")
        found = (self._node(name, table) for name, table in list(tables.items())[:MAX_NODES])
        return {node.name: node for node in found if node is not None}

    def _node(self, name: str, table: Any) -> WorkflowNode | None:
        place = ("nodes", name)
        if not NAME.fullmatch(name) or name in RESERVED:
            self._fault(
                place,
                f"'{safe_excerpt(name, 60)}' is not a valid node name: use lower-case letters, digits, _",
            )
            return None
        if not isinstance(table, dict):
            self._fault(place, f"nodes.{name} must be a table: [nodes.{name}]")
            return None
        self._known_keys(place, table, _NODE_KEYS)
        word = self._value(place, table, "kind", str, "")
        if word not in NodeKind.__members__:
            self._fault((*place, "kind"), f"kind must be one of {', '.join(NodeKind)}")
            return None
        kind = NodeKind(word)
        workflow = self._value(place, table, "workflow", str, "")
        if kind is NodeKind.subworkflow and not workflow:
            self._fault(place, f"{name} needs workflow = the name of the workflow to run")
        if kind is not NodeKind.subworkflow and "workflow" in table:
            self._fault(
                (*place, "workflow"), f"only a subworkflow can name a workflow, but {name} is a {kind}"
            )
        if kind is not NodeKind.end and "outcome" in table:
            self._fault((*place, "outcome"), f"only an end can have an outcome, but {name} is a {kind}")
        return WorkflowNode(
            name=name,
            kind=kind,
            line=self._places.line(*place),
            title=self._value(place, table, "title", str, "")[:MAX_LINE_CHARS],
            max_visits=self._count(place, table, "max_visits", DEFAULT_MAX_VISITS, HIGHEST_VISITS),
            brief=self._brief(name) if kind is NodeKind.step else None,
            workflow=workflow,
            outcome=self._label(place, table, "outcome") or (name if kind is NodeKind.end else ""),
        )

    def _brief(self, name: str) -> StepBrief | None:
        file = f"{name}{SUFFIX}"
        if file not in self._files:
            self._fault(("nodes", name), f"the step {name} has no file {file} in this folder")
            return None
        return parse_brief(self._reading, file, self._files[file])

    def _stray_files(self, nodes: Mapping[str, WorkflowNode]) -> None:
        for file in sorted(self._files):
            name = file.removesuffix(SUFFIX)
            if name not in nodes or nodes[name].kind is not NodeKind.step:
                self._reading.fault(file, 1, f"belongs to no step of this workflow{_near(name, nodes)}")

    # -- edges --

    def _edges(self, nodes: Mapping[str, WorkflowNode]) -> tuple[WorkflowEdge, ...]:
        tables = self._document.get("edges", [])
        if not isinstance(tables, list):
            self._fault(("edges",), "write edges as tables: [[edges]]")
            return ()
        if len(tables) > MAX_EDGES:
            self._fault(("edges",), f"there are {len(tables)} edges; the limit is {MAX_EDGES}")
        found = (self._edge(number, table, nodes) for number, table in enumerate(tables[:MAX_EDGES]))
        return tuple(edge for edge in found if edge is not None)

    def _edge(self, number: int, table: Any, nodes: Mapping[str, WorkflowNode]) -> WorkflowEdge | None:
        place = ("edges", number)
        if not isinstance(table, dict):
            self._fault(place, "write an edge as a table: [[edges]]")
            return None
        self._known_keys(place, table, _EDGE_KEYS)
        ends = [self._value(place, table, key, str, "") for key in ("from", "to")]
        for key, end in zip(("from", "to"), ends, strict=True):
            if end not in nodes:
                self._fault((*place, key), f"{key} must name a node{_near(end, nodes)}")
        if not all(end in nodes for end in ends):
            return None
        return WorkflowEdge(
            source=ends[0],
            target=ends[1],
            label=self._label(place, table, "label"),
            is_default=self._value(place, table, "default", bool, default=False),
            condition=self._condition(place, table, nodes),
            line=self._places.line(*place),
        )

    def _condition(
        self, place: tuple[str | int, ...], table: Mapping[str, Any], nodes: Mapping[str, WorkflowNode]
    ) -> EdgeCondition | None:
        text = self._value(place, table, "condition", str, "")
        if "condition" not in table:
            return None
        try:
            condition = parse_condition(text)
        except InvalidCondition as malformed:
            self._fault((*place, "condition"), f"condition: {malformed}")
            return None
        for name in sorted(condition.names):
            if reason := _unknown_name(name, nodes):
                self._fault((*place, "condition"), f"condition: {reason}")
        return condition

    # -- values --

    def _known_keys(
        self, place: tuple[str | int, ...], table: Mapping[str, Any], known: Collection[str]
    ) -> None:
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else f" (valid: {', '.join(known)})"
                self._fault((*place, key), f"there is no key {safe_excerpt(key, 60)} here{hint}")

    def _value(
        self,
        place: tuple[str | int, ...],
        table: Mapping[str, Any],
        key: str,
        kind: type[Found],
        default: Found,
    ) -> Found:
        value = table.get(key, default)
        if type(value) is kind:
            return value
        word = {str: "a text in quotes", int: "a whole number", bool: "true or false"}[kind]
        self._fault((*place, key), f"{key} must be {word}")
        return default

    def _count(
        self, place: tuple[str | int, ...], table: Mapping[str, Any], key: str, default: int, highest: int
    ) -> int:
        value = self._value(place, table, key, int, default)
        if not 1 <= value <= highest:
            self._fault((*place, key), f"{key} must be from 1 to {highest}")
            return default
        return value

    def _label(self, place: tuple[str | int, ...], table: Mapping[str, Any], key: str) -> str:
        value = self._value(place, table, key, str, "")
        if value and not LABEL.fullmatch(value):
            self._fault((*place, key), f"{key} can have at most 40 letters, digits, spaces, - and _")
            return ""
        return value

    def _fault(self, place: tuple[str | int, ...], text: str) -> None:
        self._reading.fault(GRAPH_FILE, self._places.line(*place), text)


def _near(name: str, nodes: Collection[str]) -> str:
    near = difflib.get_close_matches(name, nodes, n=1)
    return f"; did you mean {near[0]}?" if near else f" (got '{safe_excerpt(name, 60)}')"


def _unknown_name(path: tuple[str, ...], nodes: Mapping[str, WorkflowNode]) -> str:
    """The error for a name other than `NODE.outcome`, `NODE.visits`, `artifacts.NAME`, `run.steps`."""
    if len(path) == 2 and (path[0] == "artifacts" or path == ("run", "steps")):
        return ""
    if len(path) == 2 and path[0] in nodes and path[1] in {"outcome", "visits"}:
        return ""
    return f"{'.'.join(path)} is not one of NODE.outcome, NODE.visits, artifacts.NAME, run.steps"


# -- a step's file -------------------------------------------------------------------------------------


def parse_brief(reading: WorkflowParser, file: str, text: str) -> StepBrief | None:
    try:
        headed = (
            parse_front_matter(text) if text.startswith("---") else FrontMatterDocument((), text, 1, ())
        )
    except InvalidFile as unfit:
        reading.fault(file, unfit.line, unfit.reason)
        return None
    policy, faults = read_tool_policy(headed.entries, reading.known_tools)
    for fault in (*headed.faults, *faults):
        reading.fault(file, fault.line, fault.text)
    for entry in headed.entries:
        if entry.key not in _BRIEF_KEYS:
            reading.fault(file, entry.line, unknown_key_message(entry.key, _BRIEF_KEYS))
    body = strip_comments(headed.body)
    if not body:
        reading.fault(file, headed.body_line, "the brief is missing: describe what to do in this step")
    given = {entry.key: entry for entry in headed.entries}
    return StepBrief(
        text=body,
        agent=given["agent"].value if "agent" in given else None,
        mode=_mode(reading, file, given.get("mode")),
        outcomes=_outcomes(reading, file, given.get("outcomes")),
        tools=policy,
        agent_line=given["agent"].line if "agent" in given else 1,
    )


def _mode(reading: WorkflowParser, file: str, entry: FrontMatterEntry | None) -> ToolMode | None:
    if entry is None:
        return None
    try:
        return parse_mode(entry.value)
    except ValueError as error:
        reading.fault(file, entry.line, f"mode: {safe_excerpt(str(error), 200)}")
        return None


def _outcomes(reading: WorkflowParser, file: str, entry: FrontMatterEntry | None) -> tuple[str, ...]:
    if entry is None:
        return ()
    try:
        words = tuple(dict.fromkeys(split_list(entry.value)))
    except ValueError as error:
        reading.fault(file, entry.line, f"outcomes {error}")
        return ()
    if any(not LABEL.fullmatch(word) for word in words):
        reading.fault(file, entry.line, "each outcome can have at most 40 letters, digits, - and _")
    return words
