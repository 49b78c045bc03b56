"""The directory of workflows: read without symlinks, checked as a whole, and pinned for each run.

A workflow's directory has `workflow.toml` and one Markdown file for each step.
"""

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from interlock.agent.front_matter import DefinitionProblem
from interlock.agent.regular_files import (
    InvalidFile,
    decode_text,
    list_names,
    open_directory,
    read_whole_file,
)
from interlock.core.errors import UserError
from interlock.core.text import safe_excerpt
from interlock.workflow.graph import NodeKind, Workflow
from interlock.workflow.graph_checks import agent_problems, graph_problems, inner_problems
from interlock.workflow.parser import GRAPH_FILE, MAX_NODES, NAME, SUFFIX, parse_workflow

MAX_FILE_BYTES = 65_536
MAX_WORKFLOWS = 1000
MAX_PINNED_BYTES = 1024 * 1024
# How deep workflows may be nested.
MAX_DEPTH = 4

Agents = Callable[[], Mapping[str, str]]


class WorkflowNotFound(UserError):
    code = "WORKFLOW_NOT_FOUND"


class WorkflowInvalid(UserError):
    code = "WORKFLOW_INVALID"


@dataclass(frozen=True, slots=True)
class PinnedWorkflow:
    """A workflow with all its subworkflows, as of the start of a run.

    `agents` has the hashes of the agents' files at that time.
    """

    name: str
    document: str
    digest: str
    agents: Mapping[str, str]

    def workflows(self) -> Mapping[str, Workflow]:
        return load_pinned_workflows(self.document)


@dataclass(frozen=True, slots=True)
class WorkflowCheck:
    """The result of checking one workflow's directory. It is usable if there are no problems."""

    name: str
    workflow: Workflow | None
    problems: tuple[DefinitionProblem, ...]


class WorkflowDirectory:
    """The directory `WORKSPACE_DIR/workflows`. Its methods read files: call them in a thread."""

    def __init__(self, path: Path, known_tools: Collection[str], agents: Agents) -> None:
        """`agents` returns every usable agent, with the hash of its file."""
        self.path = path
        self._known_tools = frozenset(known_tools)
        self.agents = agents

    def survey(self) -> list[WorkflowCheck]:
        """Every workflow, sorted by name."""
        reader = self._reader()
        return [reader.check(name) for name in reader.names]

    def check(self, name: str) -> WorkflowCheck:
        return self._reader().check(name)

    def load(self, name: str) -> Workflow:
        return self._reader().load(name)

    def pin(self, name: str) -> PinnedWorkflow:
        """All texts that a run needs: later edits do not change a run.

        Exactly the texts that were checked are pinned.
        """
        reader, used = self._reader(), set[str]()
        texts: dict[str, Any] = {}
        wanted = [name]
        while wanted:
            each = wanted.pop()
            if each in texts:
                continue
            workflow = reader.load(each)
            source = reader.read(each)
            texts[each] = {"graph": source.graph, "files": source.files}
            used |= set(workflow.agents)
            wanted += workflow.subworkflows
        encoded = orjson.dumps({"root": name, "workflows": texts}, option=orjson.OPT_SORT_KEYS)
        if len(document := encoded.decode()) > MAX_PINNED_BYTES:
            raise WorkflowInvalid(f"'{name}' and its subworkflows have more than {MAX_PINNED_BYTES} bytes")
        pins = {agent: reader.agents[agent] for agent in sorted(used)}
        return PinnedWorkflow(name, document, sha256(encoded).hexdigest(), pins)

    def _reader(self) -> "_DirectoryReader":
        return _DirectoryReader(self.path, self._known_tools, self.agents())


@dataclass(slots=True)
class _WorkflowFiles:
    """One workflow's texts, the parsed workflow, and its problems without those of its subworkflows."""

    graph: str = ""
    files: dict[str, str] = field(default_factory=dict)
    workflow: Workflow | None = None
    problems: list[DefinitionProblem] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the graph itself has no faults, so that missing parts are really missing."""
        return all(problem.file != GRAPH_FILE for problem in self.problems)


class _DirectoryReader:
    """One pass over the directory: each file is read at most once, so that all results agree."""

    def __init__(self, path: Path, known_tools: Collection[str], agents: Mapping[str, str]) -> None:
        self._path = path
        self._known_tools = known_tools
        self._read: dict[str, _WorkflowFiles] = {}
        self.agents = agents
        with open_directory(path) as folder:
            found = [] if folder is None else list_names(folder)
        self.names = sorted(filter(self._is_workflow, found))[:MAX_WORKFLOWS]

    def _is_workflow(self, name: str) -> bool:
        return NAME.fullmatch(name) is not None and (self._path / name).is_dir()

    def load(self, name: str) -> Workflow:
        checked = self.check(name)
        if checked.problems or checked.workflow is None:
            first = "; ".join(f"{checked.name}/{problem}" for problem in checked.problems[:3])
            raise WorkflowInvalid(f"{first} (to see all problems: interlock workflow check {name})")
        return checked.workflow

    def check(self, name: str) -> WorkflowCheck:
        if not self._is_workflow(name):
            near = difflib.get_close_matches(name, self.names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise WorkflowNotFound(f"there is no workflow '{safe_excerpt(name, 64)}'{hint}")
        read = self.read(name)
        problems = list(read.problems)
        if read.workflow is not None and read.is_whole:
            problems += self._nested(read.workflow, (name,))
        problems.sort(key=lambda each: (each.file != GRAPH_FILE, each.file, each.line or 0))
        return WorkflowCheck(name, read.workflow, tuple(problems))

    def read(self, name: str) -> _WorkflowFiles:
        if name not in self._read:
            self._read[name] = self._read_files(name)
        return self._read[name]

    def _read_files(self, name: str) -> _WorkflowFiles:
        read = _WorkflowFiles()
        with open_directory(self._path / name) as folder:
            found = [] if folder is None else sorted(filter(_is_meant, list_names(folder)))
            for file in found[: MAX_NODES + 1]:
                try:
                    text = _text(folder, file)
                except InvalidFile as unfit:
                    read.problems.append(DefinitionProblem(file, unfit.reason, unfit.line))
                    continue
                if file == GRAPH_FILE:
                    read.graph = text
                else:
                    read.files[file] = text
        if GRAPH_FILE not in found:
            read.problems.append(DefinitionProblem(GRAPH_FILE, "is missing"))
        if not read.problems:
            read.workflow, read.problems = parse_workflow(name, read.graph, read.files, self._known_tools)
        if read.workflow is not None:
            read.problems += graph_problems(read.workflow) if read.is_whole else []
            read.problems += agent_problems(read.workflow, self.agents)
        return read

    def _nested(self, workflow: Workflow, path: tuple[str, ...]) -> list[DefinitionProblem]:
        """A subworkflow must exist, be valid, and not contain this one."""
        problems: list[DefinitionProblem] = []
        inside: dict[str, Workflow] = {}
        for node in workflow.nodes.values():
            if node.kind is not NodeKind.subworkflow:
                continue
            name, nesting = node.workflow, " > ".join((*path, node.workflow))
            reason = ""
            if name in path:
                reason = f"{nesting} is a cycle"
            elif len(path) >= MAX_DEPTH:
                reason = f"{nesting} is more than {MAX_DEPTH} workflows deep"
            elif name not in self.names:
                reason = f"there is no workflow {safe_excerpt(name, 64)}"
            elif (inner := self.read(name)).workflow is None or inner.problems:
                reason = f"the workflow {name} itself has problems"
            else:
                faults = self._nested(inner.workflow, (*path, name))
                reason = f"the workflow {name}: {faults[0].text}" if faults else ""
                inside[node.name] = inner.workflow
            if reason:
                problems.append(DefinitionProblem(GRAPH_FILE, f"nodes.{node.name}.workflow: {reason}"))
        return [*problems, *inner_problems(workflow, inside)]


def _is_meant(file: str) -> bool:
    """Whether it is a workflow file.

    Scripts, pictures, hidden files, editors' copies and notes are ignored.
    """
    is_note = file.startswith((".", "#")) or file.endswith("~") or file == "README.md"
    return file == GRAPH_FILE or (file.endswith(SUFFIX) and not is_note)


def _text(folder: int | None, file: str) -> str:
    found = None if folder is None else read_whole_file(folder, file, MAX_FILE_BYTES)
    if found is None:
        raise InvalidFile("no longer exists")
    return decode_text(found)


@lru_cache(maxsize=64)
def load_pinned_workflows(document: str) -> Mapping[str, Workflow]:
    """Load the workflows of a pinned document."""
    found: dict[str, Workflow] = {}
    for name, texts in orjson.loads(document)["workflows"].items():
        # Denying a tool that has since been removed does no harm.
        workflow, problems = parse_workflow(name, texts["graph"], texts["files"], None)
        if workflow is None or problems:
            raise WorkflowInvalid(f"a file that this run started with can no longer be read: {name}")
        found[name] = workflow
    return found
