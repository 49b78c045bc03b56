"""Every tool there is, with what it needs of the world."""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from interlock.config.modes import ToolMode
from interlock.infra.errors import ConfigurationError
from interlock.memory.index import MemoryIndex
from interlock.memory.notes import NoteFolder
from interlock.memory.search import MemorySearch
from interlock.memory.writing import NoteWriter
from interlock.questions.desk import QuestionDesk
from interlock.redaction.redactor import Redactor
from interlock.sandbox.changes import FileChanges
from interlock.sandbox.jobs import JobLimits
from interlock.sandbox.kept import KeptVersions
from interlock.sandbox.programs import PROGRAMS, Program, locate
from interlock.store.database import Database
from interlock.tools.builtins import FileServices, MemoryServices, register_builtins
from interlock.tools.builtins.ask_user import AskUserTool
from interlock.tools.builtins.complete_step import CompleteStepTool, Steps
from interlock.tools.builtins.delegate import DelegateTool, Delegation
from interlock.tools.builtins.generate_image import ImageServices
from interlock.tools.files.seen import SeenFiles
from interlock.tools.files.writing import WritingDesk
from interlock.tools.registry import ToolRegistry
from interlock.tools.shell.outputs import KeptOutputs
from interlock.tools.shell.tool import ShellServices


def build_registry(
    questions: QuestionDesk | None = None,
    files: FileServices | None = None,
    shell: ShellServices | None = None,
    images: ImageServices | None = None,
    memory: MemoryServices | None = None,
    steps: Steps | None = None,
    delegation: Delegation | None = None,
) -> ToolRegistry:
    """Every tool there is. Without what they need of the world they can be looked at, and not called."""
    registry = ToolRegistry()
    registry.register(AskUserTool(questions))
    registry.register(CompleteStepTool(steps))
    registry.register(DelegateTool(delegation or Delegation()))
    register_builtins(
        registry,
        files or _no_files(),
        shell or _no_shell(),
        images or _no_images(),
        memory or MemoryServices(None, None),
    )
    return registry


def override_modes(registry: ToolRegistry, overrides: Mapping[str, frozenset[ToolMode]]) -> None:
    """Apply the operator's TOOL_MODES. What names no tool, or would widen one, stops the start."""
    overridden: set[str] = set()
    for name, modes in overrides.items():
        tool_name = registry.canonical_name(name)
        if tool_name is None:
            near = difflib.get_close_matches(name, tool_names(registry), n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ConfigurationError(f"TOOL_MODES: there is no tool named '{name}'{meant}")
        if tool_name in overridden:
            raise ConfigurationError(f"TOOL_MODES: {tool_name} occurs twice, once by an alias")
        try:
            registry.set_mode_override(tool_name, modes)
        except ValueError as error:
            raise ConfigurationError(f"TOOL_MODES: {error}") from None
        overridden.add(tool_name)


def tool_names(registry: ToolRegistry) -> frozenset[str]:
    """All names and aliases: whoever denies a tool must name one of these."""
    return frozenset(entry.tool.name for entry in registry) | frozenset(registry.aliases())


def memory_services(workspace: Path, database: Database, redactor: Redactor) -> MemoryServices:
    """The notes of a workspace. Nothing is made, read or indexed before it is used."""
    folder = NoteFolder(workspace / "memory")
    index = MemoryIndex(database, folder, redactor.text)
    return MemoryServices(MemorySearch(database, index), NoteWriter(folder, redactor.text))


def programs(opened: Iterable[Path]) -> list[tuple[Program, Path | None, list[str]]]:
    """Every program that tools run, where it is, and the tools that need it."""
    registry = build_registry()
    return [
        (
            program,
            locate(program, opened),
            [entry.tool.name for entry in registry if program.capability in entry.tool.needs],
        )
        for program in PROGRAMS
    ]


def _no_files() -> FileServices:
    return FileServices(Redactor(), _no_desk(), None)


def _no_images() -> ImageServices:
    return ImageServices(None, Redactor(), _no_desk())


def _no_desk() -> WritingDesk:
    return WritingDesk(FileChanges(KeptVersions(Path(os.devnull), max_bytes=0)), SeenFiles(_no_log))


def _no_shell() -> ShellServices:
    return ShellServices(None, None, Redactor(), KeptOutputs(Path(os.devnull), max_bytes=0), JobLimits())


def _no_log() -> NoReturn:
    raise ConfigurationError("these tools are for inspection only and cannot be called")
