"""Agent definitions: a persona, a model and a tool policy, each in a file that people write.

An agent's policy is one more layer of the merge, so it can only tighten. A file with any fault is not
loaded: part of a policy would be wider than the whole.
"""

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from interlock.agent.front_matter import FrontMatterDocument, FrontMatterFault, parse_front_matter
from interlock.agent.regular_files import (
    InvalidFile,
    decode_text,
    list_names,
    open_directory,
    read_regular_file,
    strip_comments,
)
from interlock.agent.tool_policy_keys import TOOL_KEYS, read_tool_policy, unknown_key_message
from interlock.core.errors import UserError
from interlock.core.text import safe_excerpt
from interlock.policy.policy_fields import ToolPolicy

MAX_AGENT_BYTES = 65_536
MAX_AGENTS = 1000
MAX_DESCRIPTION = 300

_SUFFIX = ".md"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MODEL = re.compile(r"[!-~]{1,200}")


class AgentNotFound(UserError):
    code = "AGENT_NOT_FOUND"


class AgentInvalid(UserError):
    code = "AGENT_INVALID"


class AgentChangedSinceStart(UserError):
    """The agent's file changed since the task started."""

    code = "AGENT_CHANGED"


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """An agent. `sha256` is of the file's bytes: a task continues only with the agent it started with."""

    name: str
    description: str
    persona: str
    model: str | None
    tools: ToolPolicy
    sha256: str


@dataclass(frozen=True, slots=True)
class DefinitionProblem:
    """A problem in a file, with its line."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class AgentsAndProblems:
    """All usable agents and all problems of all files, both sorted by name."""

    agents: tuple[AgentDefinition, ...]
    problems: tuple[DefinitionProblem, ...]


class AgentDirectory:
    """The directory `WORKSPACE_DIR/agents`. Its methods read files: call them in a thread."""

    def __init__(self, path: Path, known_tools: Collection[str]) -> None:
        """`known_tools` are the names and aliases of all tools: a denied tool must exist."""
        self.path = path
        self._known_tools = frozenset(known_tools)

    def survey(self) -> AgentsAndProblems:
        agents: list[AgentDefinition] = []
        problems: list[DefinitionProblem] = []
        with open_directory(self.path) as folder:
            names = [] if folder is None else sorted(filter(_is_meant, list_names(folder)))
            for file in names[:MAX_AGENTS]:
                read = self._read(folder, file)
                if isinstance(read, AgentDefinition):
                    agents.append(read)
                else:
                    problems += read or ()
            if len(names) > MAX_AGENTS:
                problems.append(
                    DefinitionProblem(
                        names[MAX_AGENTS], 1, f"is ignored: there are more than {MAX_AGENTS} files"
                    )
                )
        return AgentsAndProblems(tuple(agents), tuple(problems))

    def load(self, name: str) -> AgentDefinition:
        """Load an agent from its current file; raises if the file has any fault."""
        read: AgentDefinition | tuple[DefinitionProblem, ...] | None = None
        if _NAME.fullmatch(name):
            with open_directory(self.path) as folder:
                read = self._read(folder, name + _SUFFIX)
        if isinstance(read, AgentDefinition):
            return read
        if read is None:
            raise AgentNotFound(f"there is no agent '{safe_excerpt(name, 64)}'{self._near(name)}")
        raise AgentInvalid("; ".join(str(problem) for problem in read))

    def load_pinned(self, name: str, pinned: str) -> AgentDefinition:
        """Load the agent a task started with; raises if the file no longer has the hash `pinned`."""
        agent = self.load(name)
        if agent.sha256 != pinned:
            raise AgentChangedSinceStart(
                f"the agent '{name}' has changed since this task started; start a new task"
            )
        return agent

    def _near(self, name: str) -> str:
        with open_directory(self.path) as folder:
            there = [] if folder is None else [file.removesuffix(_SUFFIX) for file in list_names(folder)]
        near = difflib.get_close_matches(name, sorted(filter(_NAME.fullmatch, there)), n=1)
        return f"; did you mean {near[0]}?" if near else ""

    def _read(
        self, folder: int | None, file: str
    ) -> AgentDefinition | tuple[DefinitionProblem, ...] | None:
        """Read one file; None if it does not exist."""
        if folder is None:
            return None
        name = file.removesuffix(_SUFFIX)
        try:
            if name == file or not _NAME.fullmatch(name):
                raise InvalidFile(
                    "is not a valid agent file name: lower-case letters, digits, - and _, then .md"
                )
            found = read_regular_file(folder, file, MAX_AGENT_BYTES + 1)
            if found is None:
                return None
            if found.size > MAX_AGENT_BYTES:
                raise InvalidFile(f"has {found.size} bytes; the limit is {MAX_AGENT_BYTES}")
            reading = _AgentParser(name, parse_front_matter(decode_text(found)), self._known_tools)
        except InvalidFile as unfit:
            return (DefinitionProblem(file, unfit.line, unfit.reason),)
        agent = reading.agent(sha256(found.data).hexdigest())
        if reading.faults:
            ordered = sorted(reading.faults, key=lambda fault: fault.line)
            return tuple(DefinitionProblem(file, fault.line, fault.text) for fault in ordered)
        return agent


def _is_meant(file: str) -> bool:
    """Whether it is an agent file. Hidden files, editors' copies and notes to people are ignored."""
    return not file.startswith((".", "#")) and not file.endswith("~") and file != "README.md"


class _AgentParser:
    """Parses one file. `faults` collects all problems, not only the first."""

    def __init__(self, name: str, text: FrontMatterDocument, known_tools: frozenset[str]) -> None:
        self._name = name
        self._text = text
        self._known_tools = known_tools
        self._given = {entry.key: entry for entry in text.entries}
        self.faults = list(text.faults)

    def agent(self, digest: str) -> AgentDefinition:
        for entry in self._text.entries:
            if entry.key not in KEYS:
                self.faults.append(FrontMatterFault(entry.line, unknown_key_message(entry.key, KEYS)))
        self._check_name()
        description = self._description()
        persona = strip_comments(self._text.body)
        if not persona:
            self._fault(
                self._text.body_line, "the persona is missing: describe the agent below the front matter"
            )
        return AgentDefinition(self._name, description, persona, self._model(), self._tools(), digest)

    def _fault(self, line: int, text: str) -> None:
        self.faults.append(FrontMatterFault(line, text))

    def _check_name(self) -> None:
        entry = self._given.get("name")
        if entry is not None and entry.value != self._name:
            self._fault(entry.line, f"name must be {self._name}, as in the file name (or omit it)")

    def _description(self) -> str:
        entry = self._given.get("description")
        if entry is None or not entry.value:
            self._fault(
                1 if entry is None else entry.line, "description is missing: describe the agent's purpose"
            )
            return ""
        if len(entry.value) > MAX_DESCRIPTION:
            self._fault(entry.line, f"description can have at most {MAX_DESCRIPTION} characters")
        return entry.value

    def _model(self) -> str | None:
        entry = self._given.get("model")
        if entry is not None and not _MODEL.fullmatch(entry.value):
            self._fault(entry.line, "model must be the name of a model, without spaces")
        return None if entry is None else entry.value

    def _tools(self) -> ToolPolicy:
        policy, faults = read_tool_policy(self._text.entries, self._known_tools)
        self.faults += faults
        return policy


KEYS = ("name", "description", "model", *TOOL_KEYS)
