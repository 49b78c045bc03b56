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

from pydantic import Field, ValidationInfo, field_validator

from interlock.agent.front_matter import DefinitionProblem, Header, read_headed_file
from interlock.agent.regular_files import (
    InvalidFile,
    decode_text,
    list_names,
    open_directory,
    read_whole_file,
)
from interlock.core.errors import UserError
from interlock.core.text import safe_excerpt
from interlock.policy.policy_fields import ToolPolicy
from interlock.policy.verdict import PolicyLayer

MAX_AGENT_BYTES = 65_536
MAX_AGENTS = 1000
MAX_DESCRIPTION = 300

_SUFFIX = ".md"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NO_PERSONA = "the persona is missing: describe the agent below the front matter"
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


class AgentHeader(Header):
    """The keys of an agent's file. The validation context is the agent's name."""

    layer = PolicyLayer.agent
    name: str = ""
    description: str = Field("", validate_default=True)
    model: str | None = None

    @field_validator("name")
    @classmethod
    def _is_the_files(cls, name: str, info: ValidationInfo) -> str:
        if name != info.context:
            raise ValueError(f"must be {info.context}, as in the file name (or omit it)")
        return name

    @field_validator("description")
    @classmethod
    def _describes(cls, text: str) -> str:
        if not text:
            raise ValueError("is missing: describe the agent's purpose")
        if len(text) > MAX_DESCRIPTION:
            raise ValueError(f"can have at most {MAX_DESCRIPTION} characters")
        return text

    @field_validator("model")
    @classmethod
    def _is_a_name(cls, model: str) -> str:
        if not _MODEL.fullmatch(model):
            raise ValueError("must be the name of a model, without spaces")
        return model


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
                        names[MAX_AGENTS], f"is ignored: there are more than {MAX_AGENTS} files", 1
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
            if (found := read_whole_file(folder, file, MAX_AGENT_BYTES)) is None:
                return None
            text = decode_text(found)
        except InvalidFile as unfit:
            return (DefinitionProblem(file, unfit.reason, unfit.line),)
        read = read_headed_file(
            file, text, AgentHeader, self._known_tools, no_body=_NO_PERSONA, context=name
        )
        if read.problems or read.header is None:
            return read.problems
        head = read.header
        digest = sha256(found.data).hexdigest()
        return AgentDefinition(name, head.description, read.body, head.model, head.tools, digest)


def _is_meant(file: str) -> bool:
    """Whether it is an agent file. Hidden files, editors' copies and notes to people are ignored."""
    return not file.startswith((".", "#")) and not file.endswith("~") and file != "README.md"
