"""The directory of workflows: read without symlinks, checked as a whole, and pinned for each run.

A workflow's directory has `workflow.toml` and one Markdown file for each step.
"""

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import orjson

from interlock.agent.definitions import DefinitionProblem
from interlock.agent.regular_files import (
    InvalidFile,
    decode_text,
    list_names,
    open_directory,
    read_regular_file,
)
from interlock.core.errors import UserError
from interlock.core.text import safe_excerpt
from interlock.workflow.graph import Workflow
from interlock.workflow.graph_checks import agent_problems, graph_problems, inner_problems
from interlock.workflow.parser import GRAPH_FILE, MAX_NODES, NAME, SUFFIX, WorkflowParser

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
class WorkflowSource:
    """A workflow's texts: the graph, and the steps' files by name."""

    graph: str
    files: Mapping[str, str]


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
        look = self._look()
        return [look.checked(name) for name in look.names]

    def check(self, name: str) -> WorkflowCheck:
        return self._look().check(name)

    def load(self, name: str) -> Workflow:
        return self._look().load(name)

    def pin(self, name: str) -> PinnedWorkflow:
        """All texts that a run needs: later edits do not change a run.

        Exactly the texts that were checked are pinned.
        """
        look, texts, used = self._look(), dict[str, WorkflowSource](), set[str]()
        wanted = [name]
        while wanted:
            each = wanted.pop()
            if each in texts:
                continue
            workflow = look.load(each)
            texts[each] = look.read(each).texts
            used |= set(workflow.agents)
            wanted += workflow.subworkflows
        document = _document(name, texts)
        if len(document) > MAX_PINNED_BYTES:
            raise WorkflowInvalid(f"'{name}' and its subworkflows have more than {MAX_PINNED_BYTES} bytes")
        pins = {agent: look.agents[agent] for agent in sorted(used)}
        return PinnedWorkflow(name, document, sha256(document.encode()).hexdigest(), pins)

    def _look(self) -> "_DirectoryReader":
        return _DirectoryReader(self.path, self._known_tools, self.agents())


@dataclass(frozen=True, slots=True)
class _Read:
    """One workflow's texts, the parsed workflow, and its own problems."""

    texts: WorkflowSource
    workflow: Workflow | None
    problems: tuple[DefinitionProblem, ...]


class _DirectoryReader:
    """One pass over the directory: each file is read at most once, so that all results agree."""

    def __init__(self, path: Path, known_tools: Collection[str], agents: Mapping[str, str]) -> None:
        self._path = path
        self._known_tools = known_tools
        self._read: dict[str, _Read] = {}
        self.agents = agents
        self.names = self._names()

    def check(self, name: str) -> WorkflowCheck:
        if not NAME.fullmatch(name) or not (self._path / name).is_dir():
            near = difflib.get_close_matches(name, self.names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise WorkflowNotFound(f"there is no workflow '{safe_excerpt(name, 64)}'{hint}")
        return self.checked(name)

    def load(self, name: str) -> Workflow:
        checked = self.check(name)
        if checked.problems or checked.workflow is None:
            told = "; ".join(f"{checked.name}/{problem}" for problem in checked.problems[:3])
            raise WorkflowInvalid(f"{told} (to see all problems: interlock workflow check {name})")
        return checked.workflow

    def checked(self, name: str) -> WorkflowCheck:
        read = self.read(name)
        workflow, problems = read.workflow, list(read.problems)
        if workflow is not None:
            problems += agent_problems(workflow, self.agents)
            problems += self._nested(workflow, (name,)) if _is_whole(problems) else ()
        ordered = sorted(problems, key=lambda each: (each.file != GRAPH_FILE, each.file, each.line))
        return WorkflowCheck(name, workflow, tuple(ordered))

    def read(self, name: str) -> _Read:
        if name not in self._read:
            self._read[name] = self._read_now(name)
        return self._read[name]

    def _read_now(self, name: str) -> _Read:
        reading = WorkflowParser(name, self._known_tools)
        texts = self._texts(name, reading.problems)
        workflow = None if reading.problems else reading.workflow(texts.graph, texts.files)
        if workflow is not None and _is_whole(reading.problems):
            reading.problems += graph_problems(workflow)
        return _Read(texts, workflow, tuple(reading.problems))

    def _names(self) -> list[str]:
        with open_directory(self._path) as folder:
            found = [] if folder is None else list_names(folder)
        meant = sorted(name for name in found if NAME.fullmatch(name) and (self._path / name).is_dir())
        return meant[:MAX_WORKFLOWS]

    def _nested(self, workflow: Workflow, path: tuple[str, ...]) -> list[DefinitionProblem]:
        """A subworkflow must exist, be valid, and not contain this one."""
        problems: list[DefinitionProblem] = []
        inside: dict[str, Workflow] = {}
        for node in workflow.nodes.values():
            name = node.workflow
            if not name:
                continue
            reason = ""
            if name in path:
                reason = f"{' > '.join((*path, name))} is a cycle"
            elif len(path) >= MAX_DEPTH:
                reason = f"{' > '.join((*path, name))} is more than {MAX_DEPTH} workflows deep"
            elif name not in self.names:
                reason = f"there is no workflow {safe_excerpt(name, 64)}"
            if not reason:
                inner = self.read(name)
                if inner.workflow is None or inner.problems or self._lacks_agents(inner.workflow):
                    reason = f"the workflow {name} itself has problems"
                else:
                    faults = self._nested(inner.workflow, (*path, name))
                    reason = faults[0].text if faults else ""
                    inside[node.name] = inner.workflow
            if reason:
                problems.append(DefinitionProblem(GRAPH_FILE, node.line, reason))
        return [*problems, *inner_problems(workflow, inside)]

    def _lacks_agents(self, workflow: Workflow) -> bool:
        return any(True for _ in agent_problems(workflow, self.agents))

    def _texts(self, name: str, problems: list[DefinitionProblem]) -> WorkflowSource:
        graph, files = "", dict[str, str]()
        with open_directory(self._path / name) as folder:
            found = [] if folder is None else sorted(filter(_is_meant, list_names(folder)))
            if GRAPH_FILE not in found:
                problems.append(DefinitionProblem(GRAPH_FILE, 1, "is missing"))
            for file in found[: MAX_NODES + 1]:
                try:
                    text = _text(folder, file)
                except InvalidFile as unfit:
                    problems.append(DefinitionProblem(file, unfit.line, unfit.reason))
                    continue
                if file == GRAPH_FILE:
                    graph = text
                else:
                    files[file] = text
        return WorkflowSource(graph, files)


def _is_whole(problems: Sequence[DefinitionProblem]) -> bool:
    """Whether the graph itself has no faults, so that missing parts are really missing."""
    return all(problem.file != GRAPH_FILE for problem in problems)


def _is_meant(file: str) -> bool:
    """Whether it is a workflow file.

    Scripts, pictures, hidden files, editors' copies and notes are ignored.
    """
    is_note = file.startswith((".", "#")) or file.endswith("~") or file == "README.md"
    return file == GRAPH_FILE or (file.endswith(SUFFIX) and not is_note)


def _text(folder: int | None, file: str) -> str:
    found = None if folder is None else read_regular_file(folder, file, MAX_FILE_BYTES + 1)
    if found is None:
        raise InvalidFile("no longer exists")
    if found.size > MAX_FILE_BYTES:
        raise InvalidFile(f"has {found.size} bytes; the limit is {MAX_FILE_BYTES}")
    return decode_text(found)


# -- pinned --------------------------------------------------------------------------------------------


def _document(name: str, texts: Mapping[str, WorkflowSource]) -> str:
    workflows = {each: {"graph": text.graph, "files": dict(text.files)} for each, text in texts.items()}
    encoded = orjson.dumps({"root": name, "workflows": workflows}, option=orjson.OPT_SORT_KEYS)
    return encoded.decode()


@lru_cache(maxsize=64)
def load_pinned_workflows(document: str) -> Mapping[str, Workflow]:
    """Load the workflows of a pinned document."""
    found: dict[str, Workflow] = {}
    for name, texts in orjson.loads(document)["workflows"].items():
        reading = WorkflowParser(name, _AnyTool())
        workflow = reading.workflow(texts["graph"], texts["files"])
        if workflow is None or reading.problems:
            raise WorkflowInvalid(f"a file that this run started with can no longer be read: {name}")
        found[name] = workflow
    return found


class _AnyTool(Collection[str]):
    """Accepts any name: denying a tool that has since been removed does no harm."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
