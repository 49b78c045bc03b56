"""Reads the files of a workflow into pydantic models, and reports each fault with the path of its key.

All faults are collected. A file with any is not loaded: part of a policy would be wider than the whole.
"""

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails

from interlock.agent.front_matter import DefinitionProblem, Header, read_headed_file, split_list
from interlock.config.modes import ToolMode, parse_mode
from interlock.core.text import safe_excerpt
from interlock.core.validation_faults import describe_fault, key_path
from interlock.policy.verdict import PolicyLayer
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

GRAPH_FILE = "workflow.toml"
SUFFIX = ".md"
MAX_NODES, MAX_EDGES = 200, 1000
MAX_LINE_CHARS = 300
HIGHEST_VISITS, HIGHEST_STEPS = 100, 1000

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_ -]{0,39}")
# Names with another meaning in conditions, which no node may have.
RESERVED = frozenset({"run", "artifacts", "and", "or", "not", "true", "false", "null"})

# No key of a workflow has as many parts, and `tomllib` takes minutes for one of some thousands.
_OVERLONG_KEY = re.compile(r"""(?:(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){20}""")

_SENTENCES = {
    "model_type": "must be a table",
    "dict_type": "must have a table [nodes.NAME] for each node",
    "too_short": "must have a table [nodes.NAME] for each node",
    "list_type": "must be tables: [[edges]]",
}


def parse_workflow(
    name: str, graph: str, files: Mapping[str, str], known_tools: Collection[str] | None
) -> tuple[Workflow | None, list[DefinitionProblem]]:
    """The workflow and its problems: with any it must not be used, and it is None if the graph has some.

    Without `known_tools`, denied tools need not exist.
    """
    if _OVERLONG_KEY.search(graph):
        return None, [_graph_problem("a name in this file has too many dots")]
    try:
        document = tomllib.loads(graph)
    except tomllib.TOMLDecodeError as error:
        return None, [_graph_problem(f"the file is not TOML: {error}")]
    except (RecursionError, ValueError):
        return None, [_graph_problem("the file cannot be parsed as TOML")]
    nodes = document.get("nodes")
    nodes = nodes if isinstance(nodes, dict) else {}
    steps = [name for name, each in nodes.items() if isinstance(each, dict) and each.get("kind") == "step"]
    parsed, problems = None, list[DefinitionProblem]()
    try:
        parsed = _WorkflowTable.model_validate(document, context=frozenset(nodes))
    except ValidationError as error:
        problems += [_graph_problem(_sentence(each)) for each in error.errors(include_url=False)]
    briefs: dict[str, StepBrief] = {}
    for step in steps[:MAX_NODES]:
        if (text := files.get(step + SUFFIX)) is None:
            problems.append(_graph_problem(f"nodes.{safe_excerpt(step, 60)} has no file {step}{SUFFIX}"))
            continue
        briefs[step], faults = _parse_brief(step + SUFFIX, text, known_tools)
        problems += faults
    for file in sorted(files.keys() - {step + SUFFIX for step in steps}):
        hint = _near(file.removesuffix(SUFFIX), nodes)
        problems.append(DefinitionProblem(file, f"belongs to no step of this workflow{hint}"))
    return None if parsed is None else _workflow(name, parsed, briefs), problems


def _graph_problem(text: str) -> DefinitionProblem:
    return DefinitionProblem(GRAPH_FILE, text)


def _near(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f" (got '{safe_excerpt(name, 60)}')"


# -- the graph -----------------------------------------------------------------------------------------


def _node_name(name: str) -> str:
    if not NAME.fullmatch(name) or name in RESERVED:
        raise ValueError("is not a valid node name: use lower-case letters, digits, _")
    return name


def _node_reference(name: str, info: ValidationInfo) -> str:
    nodes: Collection[str] = info.context or ()
    if name not in nodes:
        raise ValueError(f"must name a node{_near(name, nodes)}")
    return name


def _label(text: str) -> str:
    if text and not LABEL.fullmatch(text):
        raise ValueError("can have at most 40 letters, digits, spaces, - and _")
    return text


def _condition(text: Any, info: ValidationInfo) -> EdgeCondition:
    if not isinstance(text, str):
        raise ValueError("must be a text")
    try:
        condition = parse_condition(text)
    except InvalidCondition as malformed:
        raise ValueError(f"is not a condition: {malformed}") from None
    nodes: Collection[str] = info.context or ()
    for path in sorted(condition.names):
        is_of_node = len(path) == 2 and path[0] in nodes and path[1] in {"outcome", "visits"}
        is_artifact = len(path) == 2 and path[0] == "artifacts" and NAME.fullmatch(path[1])
        if not (is_of_node or is_artifact or path == ("run", "steps")):
            known = "NODE.outcome, NODE.visits, artifacts.NAME, run.steps"
            raise ValueError(
                f"is not a condition: {safe_excerpt('.'.join(path), 90)} is not one of {known}"
            )
    return condition


NodeReference = Annotated[str, AfterValidator(_node_reference)]
Label = Annotated[str, AfterValidator(_label)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _NodeTable(_Table):
    kind: NodeKind = Field(strict=False)
    title: str = ""
    max_visits: int = Field(DEFAULT_MAX_VISITS, ge=1, le=HIGHEST_VISITS)
    workflow: str = Field("", validate_default=True)
    outcome: Label = ""

    @field_validator("workflow")
    @classmethod
    def _of_a_subworkflow(cls, workflow: str, info: ValidationInfo) -> str:
        kind = info.data.get("kind")
        if kind is NodeKind.subworkflow and not workflow:
            raise ValueError("must be the name of the workflow to run")
        if workflow and kind not in {NodeKind.subworkflow, None}:
            raise ValueError(f"is only for subworkflows; this is a {kind}")
        return workflow

    @field_validator("outcome")
    @classmethod
    def _of_an_end(cls, outcome: str, info: ValidationInfo) -> str:
        if (kind := info.data.get("kind")) not in {NodeKind.end, None}:
            raise ValueError(f"is only for ends; this is a {kind}")
        return outcome


class _EdgeTable(_Table):
    source: NodeReference = Field(alias="from")
    target: NodeReference = Field(alias="to")
    label: Label = ""
    is_default: bool = Field(default=False, alias="default")
    condition: Annotated[InstanceOf[EdgeCondition] | None, BeforeValidator(_condition)] = None


class _WorkflowTable(_Table):
    """`workflow.toml`. The validation context is the names of its nodes."""

    description: str
    start: NodeReference
    agent: str = ""
    max_steps: int = Field(DEFAULT_MAX_STEPS, ge=1, le=HIGHEST_STEPS)
    nodes: dict[Annotated[str, AfterValidator(_node_name)], _NodeTable] = Field(
        min_length=1, max_length=MAX_NODES
    )
    edges: list[_EdgeTable] = Field(default=[], max_length=MAX_EDGES)

    @field_validator("description")
    @classmethod
    def _describes(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("is missing: describe the workflow's purpose")
        return " ".join(text.split())[:MAX_LINE_CHARS]


def _sentence(fault: ErrorDetails) -> str:
    """The fault after the path of its key: `nodes.review.max_visits must be at least 1`."""
    *table, key = fault["loc"] or ("",)
    sentence = f"{key_path(fault['loc'])} {describe_fault(fault, _SENTENCES) or fault['msg']}"
    if fault["type"] != "extra_forbidden":
        return sentence
    tables: dict[Any, type[_Table]] = {"nodes": _NodeTable, "edges": _EdgeTable}
    model = tables[table[0]] if table else _WorkflowTable
    known = [field.alias or name for name, field in model.model_fields.items()]
    near = difflib.get_close_matches(str(key), known, n=1)
    return sentence + (f"; did you mean {near[0]}?" if near else f" (valid: {', '.join(known)})")


def _workflow(name: str, parsed: _WorkflowTable, briefs: Mapping[str, StepBrief]) -> Workflow:
    nodes = {
        each: WorkflowNode(
            name=each,
            kind=table.kind,
            title=table.title[:MAX_LINE_CHARS],
            max_visits=table.max_visits,
            brief=briefs.get(each),
            workflow=table.workflow,
            outcome=table.outcome or (each if table.kind is NodeKind.end else ""),
        )
        for each, table in parsed.nodes.items()
    }
    edges = (WorkflowEdge(**dict(edge), number=number) for number, edge in enumerate(parsed.edges))
    return Workflow(
        name=name,
        description=parsed.description,
        start=parsed.start,
        nodes=nodes,
        edges=tuple(edges),
        agent=parsed.agent or None,
        max_steps=parsed.max_steps,
    )


# -- a step's file -------------------------------------------------------------------------------------


class _StepHeader(Header):
    layer = PolicyLayer.node
    agent: str | None = None
    mode: ToolMode | None = None
    outcomes: tuple[str, ...] = ()

    @field_validator("mode", mode="before")
    @classmethod
    def _mode(cls, text: str) -> ToolMode:
        try:
            return parse_mode(text)
        except ValueError as error:
            raise ValueError(f"is unknown: {safe_excerpt(str(error), 200)}") from None

    @field_validator("outcomes", mode="before")
    @classmethod
    def _outcomes(cls, text: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(split_list(text)))
        if any(not LABEL.fullmatch(word) for word in words):
            raise ValueError("can have at most 40 letters, digits, - and _ each")
        return words


_NO_BRIEF = "the brief is missing: describe what to do in this step"


def _parse_brief(
    file: str, text: str, known_tools: Collection[str] | None
) -> tuple[StepBrief, tuple[DefinitionProblem, ...]]:
    read = read_headed_file(
        file, text, _StepHeader, known_tools, no_body=_NO_BRIEF, is_header_optional=True
    )
    head = read.header or _StepHeader()
    return StepBrief(read.body, head.agent, head.mode, head.outcomes, head.tools), read.problems
