"""The only file that builds objects. Read it to see the system."""

import os
import pwd
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from interlock.config.endpoints import ImageEndpoint, image_endpoint
from interlock.config.modes import ToolMode
from interlock.config.settings import PROTECTED_NAMES, Settings, ToolSettings
from interlock.events.catalog import SYSTEM_STREAM, SandboxProbed
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
from interlock.memory.index import MemoryIndex
from interlock.memory.notes import NoteFolder
from interlock.memory.search import MemorySearch
from interlock.memory.writing import NoteWriter
from interlock.questions.desk import QuestionDesk
from interlock.redaction.choice import redactor_for
from interlock.redaction.redactor import Redactor
from interlock.sandbox.changes import FileChanges
from interlock.sandbox.choice import Choice, choose_backend
from interlock.sandbox.jobs import JobLimits
from interlock.sandbox.kept import KeptVersions
from interlock.sandbox.programs import BASH, PROGRAMS, RG, locate
from interlock.session.lease import SessionLeases
from interlock.session.manager import SessionManager
from interlock.session.mode_switch import ModeSwitch
from interlock.session.settings_store import SettingsStore
from interlock.store.database import Database, StoreConfig, open_database
from interlock.tools.builtins import FileServices, MemoryServices, register_builtins
from interlock.tools.builtins.ask_user import AskUserTool
from interlock.tools.builtins.generate_image import ImageServices
from interlock.tools.files.seen import SeenFiles
from interlock.tools.files.undoing import UndoDesk
from interlock.tools.files.writing import WritingDesk
from interlock.tools.registry import ToolRegistry
from interlock.tools.shell.outputs import KeptOutputs
from interlock.tools.shell.tool import ShellServices

# All output of commands that is kept to be paged, of all sessions together.
MAX_OUTPUT_BYTES = 256 * 1024 * 1024


# Where nobody looked for a sandbox, nothing that needs one is offered.
NO_SANDBOX = Choice(None, "none was looked for")


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
    sandbox: Choice
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

    async def close(self) -> None:
        if self.sandbox.backend is not None:
            await self.sandbox.backend.close()
        self.log.close()
        self.database.close()


async def chosen_sandbox(settings: Settings, *, is_anew: bool = False) -> Choice:
    """What confines commands here, tried out; remembered while nothing changed that it depends on."""
    return await choose_backend(settings.tool.sandbox, state_folder=settings.state_dir, is_anew=is_anew)


async def tried_sandbox(settings: Settings) -> Choice:
    """The same, tried out now and closed again: to be told, not to be used."""
    choice = await chosen_sandbox(settings, is_anew=True)
    if choice.backend is not None:
        await choice.backend.close()
    return choice


def open_runtime(
    settings: Settings,
    *,
    opened: Iterable[ToolMode] = (),
    roots: tuple[Path, ...] | None = None,
    sandbox: Choice = NO_SANDBOX,
) -> Runtime:
    """Build everything. `opened` and `roots` are what the local operator said on the command line."""
    if roots is not None:
        try:
            settings.refuse_precious(roots, "--root")
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
    redactor = redactor_for(settings)
    configure_logging(settings.log_level, redact=redactor.value, as_json=False)
    database = open_database(store_config(settings))
    log = EventLog(database, redactor)
    open_modes = settings.session.open_modes | frozenset(opened)
    questions = QuestionDesk(database, log, redactor)
    kept = KeptVersions(settings.state_dir / "kept", max_bytes=settings.tool.kept_bytes)
    outputs = KeptOutputs(settings.state_dir / "outputs", max_bytes=MAX_OUTPUT_BYTES)
    desk = WritingDesk(FileChanges(kept), SeenFiles(database.reading))
    registry = build_registry(
        questions,
        FileServices(redactor, desk, locate(RG)),
        ShellServices(sandbox.backend, locate(BASH), redactor, outputs, JobLimits()),
        _images(settings, redactor, desk),
        memory_services(settings.workspace_dir, database, redactor),
    )
    return Runtime(
        settings=settings,
        database=database,
        redactor=redactor,
        log=log,
        sessions=_sessions(settings, database, log, redactor, open_modes, (kept.forget, outputs.forget)),
        leases=SessionLeases(log, seconds=settings.session.lease_seconds),
        mode_switch=ModeSwitch(log, open_modes=open_modes),
        stored_settings=SettingsStore(database, log, redactor),
        questions=questions,
        undo=UndoDesk(kept, log),
        registry=registry,
        authorities=AuthorityCache(registry),
        runner=ToolRunner(registry, log, redactor),
        sandbox=sandbox,
        situation=_situation(settings, open_modes, roots or settings.tool.allowed_roots, sandbox),
    )


def _images(settings: Settings, redactor: Redactor, desk: WritingDesk) -> ImageServices:
    endpoint = image_endpoint(settings)
    return ImageServices(endpoint if isinstance(endpoint, ImageEndpoint) else None, redactor, desk)


async def record_probes(runtime: Runtime) -> None:
    """What was tried against the sandbox stands in the log before anything relies on it."""
    for report in runtime.sandbox.reports:
        rows = [[row.name, row.holds, row.detail] for row in report.rows]
        event = SandboxProbed(backend=report.backend, holds=report.ok, rows=rows)
        await runtime.log.append(SYSTEM_STREAM, event)


def _sessions(
    settings: Settings,
    database: Database,
    log: EventLog,
    redactor: Redactor,
    open_modes: frozenset[ToolMode],
    forgetting: tuple[Callable[[str], None], ...],
) -> SessionManager:
    def forget_files(session_id: str) -> None:
        for forget in forgetting:
            forget(session_id)

    return SessionManager(
        *(database, log, redactor),
        default_mode=ToolMode(settings.session.default_mode),
        open_modes=open_modes,
        forget_files=forget_files,
    )


def _situation(
    settings: Settings,
    open_modes: frozenset[ToolMode],
    roots: tuple[Path, ...] | None,
    sandbox: Choice,
) -> Situation:
    tool = settings.tool
    here = replace(
        capabilities(roots, tool.protected_names, sandbox=sandbox, images=image_endpoint(settings)),
        reads_hard_links=tool.hard_links,
        readable_paths=tool.readable_paths,
        denied_commands=tool.bash_denylist,
    )
    return Situation(
        mode=ToolMode.chat_safe,
        open_modes=open_modes,
        environment=ceiling(settings),
        capabilities=here,
        limits=_call_limits(tool),
    )


def build_registry(
    questions: QuestionDesk | None = None,
    files: FileServices | None = None,
    shell: ShellServices | None = None,
    images: ImageServices | None = None,
    memory: MemoryServices | None = None,
) -> ToolRegistry:
    """Every tool there is. Without what they need of the world they can be looked at, and not called."""
    registry = ToolRegistry()
    registry.register(AskUserTool(questions))
    register_builtins(
        registry,
        files or _no_files(),
        shell or _no_shell(),
        images or _no_images(),
        memory or MemoryServices(None, None),
    )
    return registry


def memory_services(workspace: Path, database: Database, redactor: Redactor) -> MemoryServices:
    """The notes of a workspace. Nothing is made, read or indexed before it is used."""
    folder = NoteFolder(workspace / "memory")
    index = MemoryIndex(database, folder, redactor.text)
    return MemoryServices(MemorySearch(database, index), NoteWriter(folder, redactor.text))


def _no_files() -> FileServices:
    return FileServices(Redactor(), _no_desk(), None)


def _no_images() -> ImageServices:
    return ImageServices(None, Redactor(), _no_desk())


def _no_desk() -> WritingDesk:
    return WritingDesk(FileChanges(KeptVersions(Path(os.devnull), max_bytes=0)), SeenFiles(_no_log))


def _no_shell() -> ShellServices:
    return ShellServices(None, None, Redactor(), KeptOutputs(Path(os.devnull), max_bytes=0), JobLimits())


def _no_log() -> NoReturn:
    raise ConfigurationError("these tools were made to be looked at, not to be called")


def store_config(settings: Settings) -> StoreConfig:
    return StoreConfig(
        url=settings.database_url,
        busy_timeout_seconds=settings.database.busy_timeout_seconds,
        synchronous=settings.database.synchronous,
    )


def ceiling(settings: Settings) -> ToolPolicy:
    """The operator's environment as the first policy layer."""
    tool = settings.tool
    return ToolPolicy(
        fs=FsPolicy(
            enabled=tool.fs_enabled,
            max_read_bytes=tool.max_read_bytes,
            max_write_bytes=tool.max_write_bytes,
        ),
        shell=ShellPolicy(enabled=tool.shell_enabled, network=tool.shell_network, ports=tool.network_ports),
        mcp=McpPolicy(enabled=tool.mcp_enabled, allowed_servers=tool.mcp_servers),
        memory=MemoryPolicy(enabled=tool.memory_enabled),
        image=ImagePolicy(enabled=tool.image_enabled, max_bytes=settings.image.max_bytes),
        max_timeout_seconds=tool.max_timeout_seconds,
        denied_tools=tool.denied,
    )


def capabilities(
    roots: tuple[Path, ...] | None,
    protected_names: tuple[str, ...] = PROTECTED_NAMES,
    *,
    sandbox: Choice = NO_SANDBOX,
    images: ImageEndpoint | str = "no endpoint for images is configured",
) -> Capabilities:
    """What works here, and for everything that does not, why and what would help."""
    present, missing = {"person"}, {}
    if isinstance(images, ImageEndpoint):
        present.add("endpoint:images")
    else:
        missing["endpoint:images"] = images
    if roots:
        present.add("roots")
    else:
        missing["roots"] = "no folder was opened for it (TOOL_ALLOWED_ROOTS is not set)"
    if sandbox.is_confined:
        present |= {"sandbox", "sandbox:walls"}
    elif sandbox.backend is not None:
        present.add("sandbox")
        missing["sandbox:walls"] = f"nothing would keep it from writing ({sandbox.reason})"
    else:
        missing["sandbox"] = f"commands cannot be confined ({sandbox.reason})"
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
        sandbox=sandbox.backend.name if sandbox.backend is not None else "none",
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


def dead_denials(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Entries of the operator's denylist of commands that can never match, and why."""
    from interlock.sandbox.commands import CommandJudge

    return CommandJudge(settings.tool.bash_denylist, (), Path.home()).dead_entries


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
