"""The only file that builds objects. Read it to see the system."""

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from interlock.config.describe import secrets_of
from interlock.config.modes import ToolMode
from interlock.config.settings import PROTECTED_NAMES, Settings, ToolSettings
from interlock.events.log import EventLog
from interlock.gates.authority import Authority, AuthorityCache, CallLimits, Capabilities, Situation
from interlock.gates.policy import (
    NO_RESTRICTION,
    FsPolicy,
    ImagePolicy,
    McpPolicy,
    MemoryPolicy,
    ShellPolicy,
    ToolPolicy,
)
from interlock.gates.runner import ToolRunner
from interlock.infra.errors import ConfigurationError
from interlock.infra.logging import configure_logging
from interlock.questions.desk import QuestionDesk
from interlock.redaction.redactor import Redactor
from interlock.sandbox.changes import FileChanges
from interlock.sandbox.kept import KeptVersions
from interlock.sandbox.programs import PROGRAMS, RG, locate
from interlock.session.lease import SessionLeases
from interlock.session.manager import SessionManager
from interlock.session.mode_switch import ModeSwitch
from interlock.session.settings_store import SettingsStore
from interlock.store.database import Database, StoreConfig, open_database
from interlock.tools.builtins import FileServices, register_builtins
from interlock.tools.builtins.ask_user import AskUserTool
from interlock.tools.files.seen import SeenFiles
from interlock.tools.files.undoing import UndoDesk
from interlock.tools.files.writing import WritingDesk
from interlock.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class Runtime:
    """One process's Interlock, whole. `close` it."""

    settings: Settings
    database: Database
    redactor: Redactor
    log: EventLog
    sessions: SessionManager
    leases: SessionLeases
    mode_switch: ModeSwitch
    stored_settings: SettingsStore
    questions: QuestionDesk
    undo: UndoDesk
    registry: ToolRegistry
    authorities: AuthorityCache
    runner: ToolRunner
    situation: Situation

    async def authority(
        self,
        mode: ToolMode,
        *,
        agent: ToolPolicy = NO_RESTRICTION,
        node: ToolPolicy = NO_RESTRICTION,
        open_modes: frozenset[ToolMode] | None = None,
        someone_can_answer: bool = True,
    ) -> Authority:
        """What may be done in that mode now, under the newest stored settings."""
        stored = await self.stored_settings.current()
        here = self.situation.capabilities
        if not someone_can_answer:
            here = here.without("person", "nobody is there to answer")
        situation = replace(
            self.situation,
            mode=mode,
            open_modes=self.situation.open_modes if open_modes is None else open_modes,
            settings=stored.settings.tools,
            agent=agent,
            node=node,
            capabilities=here,
        )
        return self.authorities.get(situation)

    def close(self) -> None:
        self.log.close()
        self.database.close()


def open_runtime(
    settings: Settings, *, opened: Iterable[ToolMode] = (), roots: tuple[Path, ...] | None = None
) -> Runtime:
    """Build everything. `opened` and `roots` are what the local operator said on the command line."""
    if roots is not None:
        try:
            settings.refuse_precious(roots, "--root")
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
    redactor = Redactor(secrets_of(settings))
    configure_logging(settings.log_level, redact=redactor.value, as_json=False)
    database = open_database(store_config(settings))
    log = EventLog(database, redactor)
    open_modes = settings.session.open_modes | frozenset(opened)
    questions = QuestionDesk(database, log, redactor)
    kept = KeptVersions(settings.state_dir / "kept", max_bytes=settings.tool.kept_bytes)
    desk = WritingDesk(FileChanges(kept), SeenFiles(database.reading))
    files = FileServices(redactor, desk, locate(RG))
    registry = build_registry(questions, files)
    return Runtime(
        settings=settings,
        database=database,
        redactor=redactor,
        log=log,
        sessions=SessionManager(
            database,
            log,
            redactor,
            default_mode=ToolMode(settings.session.default_mode),
            open_modes=open_modes,
            forget_files=kept.forget,
        ),
        leases=SessionLeases(log, seconds=settings.session.lease_seconds),
        mode_switch=ModeSwitch(log, open_modes=open_modes),
        stored_settings=SettingsStore(database, log, redactor),
        questions=questions,
        undo=UndoDesk(kept, log),
        registry=registry,
        authorities=AuthorityCache(registry),
        runner=ToolRunner(registry, log, redactor),
        situation=_situation(settings.tool, open_modes, roots or settings.tool.allowed_roots),
    )


def _situation(
    tool: ToolSettings, open_modes: frozenset[ToolMode], roots: tuple[Path, ...] | None
) -> Situation:
    here = capabilities(roots, tool.protected_names, reads_hard_links=tool.hard_links)
    return Situation(
        mode=ToolMode.chat_safe,
        open_modes=open_modes,
        environment=ceiling(tool),
        capabilities=here,
        limits=_call_limits(tool),
    )


def build_registry(
    questions: QuestionDesk | None = None, files: FileServices | None = None
) -> ToolRegistry:
    """Every tool there is. Without what they need of the world they can be looked at, and not called."""
    registry = ToolRegistry()
    registry.register(AskUserTool(questions))
    register_builtins(registry, files or _no_files())
    return registry


def _no_files() -> FileServices:
    nothing = WritingDesk(FileChanges(KeptVersions(Path(os.devnull), max_bytes=0)), SeenFiles(_no_log))
    return FileServices(Redactor(), nothing, None)


def _no_log() -> NoReturn:
    raise ConfigurationError("these tools were made to be looked at, not to be called")


def store_config(settings: Settings) -> StoreConfig:
    return StoreConfig(
        url=settings.database_url,
        busy_timeout_seconds=settings.database.busy_timeout_seconds,
        synchronous=settings.database.synchronous,
    )


def ceiling(tool: ToolSettings) -> ToolPolicy:
    """The operator's environment as the first policy layer."""
    return ToolPolicy(
        fs=FsPolicy(
            enabled=tool.fs_enabled,
            max_read_bytes=tool.max_read_bytes,
            max_write_bytes=tool.max_write_bytes,
        ),
        shell=ShellPolicy(enabled=tool.shell_enabled, network=tool.shell_network, ports=tool.network_ports),
        mcp=McpPolicy(enabled=tool.mcp_enabled, allowed_servers=tool.mcp_servers),
        memory=MemoryPolicy(enabled=tool.memory_enabled),
        image=ImagePolicy(enabled=tool.image_enabled),
        max_timeout_seconds=tool.max_timeout_seconds,
        denied_tools=tool.denied,
    )


def capabilities(
    roots: tuple[Path, ...] | None,
    protected_names: tuple[str, ...] = PROTECTED_NAMES,
    *,
    reads_hard_links: bool = False,
) -> Capabilities:
    """What works here, and for everything that does not, why and what would help."""
    present, missing = {"person"}, {}
    if roots:
        present.add("roots")
    else:
        missing["roots"] = "no folder was opened for it (TOOL_ALLOWED_ROOTS is not set)"
    for program in PROGRAMS:
        if locate(program) is not None:
            present.add(program.capability)
        else:
            missing[program.capability] = f"the program {program.names[0]} is missing; {program.hint}"
    return Capabilities(
        present=frozenset(present),
        missing_reasons=tuple(missing.items()),
        roots=roots or (),
        protected_names=protected_names,
        reads_hard_links=reads_hard_links,
    )


def programs() -> list[tuple[str, Path | None, list[str], str]]:
    """Every program that tools run: its name, where it is, the tools that need it, how to get it."""
    registry = build_registry()
    return [
        (
            program.names[0],
            locate(program),
            [entry.tool.name for entry in registry if program.capability in entry.tool.needs],
            program.hint,
        )
        for program in PROGRAMS
    ]


def local_person() -> str:
    """Who is at this command line, as the log names them."""
    try:
        # The account that runs this, not what its environment claims.
        return f"local:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"local:{os.getuid()}"


def _call_limits(tool: ToolSettings) -> CallLimits:
    return CallLimits(
        timeout_seconds=tool.timeout_seconds,
        max_timeout_seconds=tool.max_timeout_seconds,
        max_output_lines=tool.max_output_lines,
        max_output_bytes=tool.max_output_bytes,
    )
