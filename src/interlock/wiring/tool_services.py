"""Builds the services that the tools need, and the registry of all tools."""

import difflib
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.core.errors import ConfigurationError
from interlock.db.database import Database
from interlock.log.writer import EventLog
from interlock.memory.authorship import AuthorLines, NoteAuthor
from interlock.memory.index import MemoryIndex
from interlock.memory.note_directory import NoteDirectory
from interlock.memory.note_writer import NoteWriter
from interlock.memory.search import MemorySearch
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.questions.service import QuestionService
from interlock.redaction.redactor import Redactor
from interlock.sandbox.file_changer import FileChanger
from interlock.sandbox.jobs import JobLimits
from interlock.sandbox.programs import PROGRAMS, Program, locate
from interlock.sandbox.undo_store import UndoStore
from interlock.tools.builtins.complete_step import StepCompleter
from interlock.tools.builtins.delegate import SubtaskRunnerSlot
from interlock.tools.builtins.generate_image import ImageServices
from interlock.tools.builtins.registration import FileServices, MemoryServices, register_builtins
from interlock.tools.files.read_history import ReadHistory
from interlock.tools.files.write_checks import WriteServices
from interlock.tools.mcp.launch import LaunchCeiling
from interlock.tools.mcp.pool import LazySandbox, McpConnectionPool
from interlock.tools.mcp.repository import McpRepository
from interlock.tools.mcp.service import McpService
from interlock.tools.registry import ToolRegistry
from interlock.tools.shell.output_spool import OutputSpool
from interlock.tools.shell.tool import ShellServices


def build_registry(
    questions: QuestionService | None = None,
    files: FileServices | None = None,
    shell: ShellServices | None = None,
    images: ImageServices | None = None,
    memory: MemoryServices | None = None,
    steps: StepCompleter | None = None,
    delegation: SubtaskRunnerSlot | None = None,
) -> ToolRegistry:
    """Every tool. Without services they can be inspected, but not called."""
    registry = ToolRegistry()
    register_builtins(
        registry,
        files or _no_files(),
        shell or _no_shell(),
        images or _no_images(),
        memory or MemoryServices(None, None, None),
        questions,
        steps,
        delegation or SubtaskRunnerSlot(),
    )
    return registry


def override_modes(registry: ToolRegistry, overrides: Mapping[str, frozenset[ToolMode]]) -> None:
    """Apply the operator's TOOL_MODES. An entry that names no tool, or would widen one, stops the start."""
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
    """All names and aliases of tools, which a denial can use."""
    return frozenset(entry.tool.name for entry in registry) | frozenset(registry.aliases())


# A credential sends tasks through the gateway only; without one, the session says how it was opened.
AUTHOR = """
SELECT s.agent, t.who, CASE
    WHEN t.credential_id IS NOT NULL THEN 'gateway'
    WHEN substr(t.who, 1, 9) = 'telegram:' THEN 'telegram'
    ELSE s.opened_by END
FROM sessions s LEFT JOIN tasks t ON t.session_id = s.id AND t.id = ? WHERE s.id = ?
"""


def memory_services(
    workspace: Path, state_dir: Path, database: Database, redactor: Redactor
) -> MemoryServices:
    """The notes of a workspace. Nothing is created, read or indexed before it is used."""
    folder = NoteDirectory(workspace / "memory")
    authors = AuthorLines(state_dir / "note-authors.key")
    machine = "" if database.config.is_sqlite else socket.gethostname()
    index = MemoryIndex(state_dir, folder, redactor.text, authors, database.reserve, machine)

    def author(session_id: str, task_id: str | None) -> NoteAuthor:
        with database.reading() as connection:
            rows = connection.query(AUTHOR, (task_id or "", session_id))
        agent, person, channel = rows[0] if rows else ("", "", "")
        return NoteAuthor(agent=agent or "", person=person or "", channel=channel, task=task_id or "")

    return MemoryServices(MemorySearch(index), NoteWriter(folder, redactor.text, authors), author)


def open_mcp(
    settings: Settings,
    database: Database,
    log: EventLog,
    redactor: Redactor,
    registry: ToolRegistry,
    authority_inputs: AuthorityInputs,
    sandbox: LazySandbox,
) -> McpService:
    """No server is started, and the library is not imported, before a server is used."""
    here = authority_inputs.capabilities
    ceiling = LaunchCeiling(
        roots=here.roots,
        readable_paths=here.readable_paths,
        network_ports=settings.tool.network_ports if settings.tool.shell_network else frozenset(),
        protected_names=here.protected_names,
        own_folders=(settings.state_dir, settings.workspace_dir),
    )
    pool = McpConnectionPool(ceiling, sandbox, redactor, log)
    return McpService(McpRepository(database, log), pool, registry, redactor)


def programs(opened: Iterable[Path]) -> list[tuple[Program, Path | None, list[str]]]:
    """Every program that tools run, its path, and the tools that need it."""
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


def _no_desk() -> WriteServices:
    return WriteServices(FileChanger(UndoStore(Path(os.devnull), max_bytes=0)), ReadHistory(_no_log))


def _no_shell() -> ShellServices:
    return ShellServices(None, None, Redactor(), OutputSpool(Path(os.devnull), max_bytes=0), JobLimits())


def _no_log() -> NoReturn:
    raise ConfigurationError("these tools are for inspection only and cannot be called")
