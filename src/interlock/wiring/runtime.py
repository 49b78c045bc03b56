"""One process's Interlock: the store, the log, the gates, the tools. `office.py` has who works with it."""

import asyncio
import os
import pwd
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from interlock.config.endpoints import ImageEndpoint, image_endpoint
from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.events.catalog import SYSTEM_STREAM, ProtectedRestored, SandboxProbed, ToolsUnavailable
from interlock.events.log import EventLog
from interlock.events.retention import Retention
from interlock.gates.authority import AuthorityCache
from interlock.gates.runner import ToolRunner
from interlock.gates.situation import Situation
from interlock.infra.errors import ConfigurationError, InterlockError
from interlock.infra.logging import Log, redact_lines
from interlock.infra.records import dataclass
from interlock.infra.text import storable
from interlock.questions.desk import QuestionDesk
from interlock.redaction.choice import redactor_for
from interlock.redaction.redactor import Redactor
from interlock.sandbox.changes import FileChanges
from interlock.sandbox.choice import Choice, choose_backend
from interlock.sandbox.guard import share_memory
from interlock.sandbox.jobs import JobLimits, SandboxUnavailable
from interlock.sandbox.kept import KeptVersions
from interlock.sandbox.programs import BASH, RG, locate
from interlock.sandbox.scratch import place_outside, remove_abandoned_directories
from interlock.session.erasure import SessionEraser
from interlock.session.lease import SessionLeases
from interlock.session.manager import SessionManager
from interlock.session.mode_switch import ModeSwitch
from interlock.session.settings_store import SettingsStore
from interlock.store.database import Database, StoreConfig, open_database
from interlock.store.lives import Lives
from interlock.tools.base import BaseTool
from interlock.tools.builtins import FileServices
from interlock.tools.builtins.delegate import Delegation
from interlock.tools.builtins.generate_image import ImageServices
from interlock.tools.files.seen import SeenFiles
from interlock.tools.files.undoing import UndoDesk, UndoReport
from interlock.tools.files.writing import WritingDesk
from interlock.tools.mcp.desk import McpDesk
from interlock.tools.mcp.walls import Walls
from interlock.tools.registry import ToolRegistry
from interlock.tools.sealed import SealedArguments
from interlock.tools.shell.outputs import KeptOutputs
from interlock.tools.shell.tool import ShellServices
from interlock.wiring.authority import AuthoritySource
from interlock.wiring.foreign import open_mcp
from interlock.wiring.registry import build_registry, memory_services, override_modes
from interlock.wiring.situation import NO_SANDBOX, MissingNeed, missing_needs, situation_of
from interlock.worker.local_wire import LocalWire
from interlock.worker.queue import InProcessBell
from interlock.worker.rows import SESSION_OF
from interlock.worker.wire import Wire
from interlock.workflow.completing import RunBook

if TYPE_CHECKING:
    from interlock.worker.nats_wire import Servers

__all__ = ["Runtime", "UndoReport", "open_runtime"]

# All output of commands that is kept to be paged, of all sessions together.
MAX_OUTPUT_BYTES = 256 * 1024 * 1024
# Of what a process that was killed left, as many paths are recorded.
MAX_RESTORED_TOLD = 50

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Runtime:
    """One process's Interlock, whole. `close` it."""

    settings: Settings
    database: Database
    redactor: Redactor
    log: EventLog
    # How the processes that share this state folder hear of one another.
    wire: Wire
    bell: InProcessBell
    sessions: SessionManager
    eraser: SessionEraser
    # Which of the processes live that share an SQLite store.
    lives: Lives | None
    leases: SessionLeases
    mode_switch: ModeSwitch
    stored_settings: SettingsStore
    questions: QuestionDesk
    undo: UndoDesk
    # What stands in the store about runs of workflows; and where agents hand tasks over to.
    runs: RunBook
    delegation: Delegation
    # Tools of other programs, which come and go.
    mcp: McpDesk
    registry: ToolRegistry
    authorities: AuthorityCache
    # What may be done now: `await runtime.authority(mode)`.
    authority: AuthoritySource
    runner: ToolRunner
    # What calls were given where the log masks it.
    sealed: SealedArguments
    sandbox: Choice
    situation: Situation
    # None: what was said and done is kept for ever.
    retention: Retention | None = None

    async def close(self) -> None:
        await self.mcp.close()
        if self.sandbox.backend is not None:
            await self.sandbox.backend.close()
        self.log.close()
        self.database.close()
        if self.lives is not None:
            # Nothing is written here any more: what could not be given back is free for others.
            self.lives.close()


class Places(NamedTuple):
    """Where tools keep things, what confines commands, and which folders are opened."""

    kept: KeptVersions
    outputs: KeptOutputs
    sealed: SealedArguments
    sandbox: Choice
    roots: tuple[Path, ...]


async def chosen_sandbox(
    settings: Settings, roots: tuple[Path, ...] | None = None, *, is_anew: bool = False
) -> Choice:
    """What confines commands here, tried out; remembered while nothing changed that it depends on."""
    if not is_anew:
        # The first start has no folder yet to remember it in. Where none can be made, the store says why.
        with suppress(OSError):
            settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return await choose_backend(
        settings.tool.sandbox,
        state_folder=settings.state_dir,
        is_anew=is_anew,
        opened=roots or settings.tool.allowed_roots or (),
    )


async def tried_sandbox(settings: Settings) -> Choice:
    """The same, tried out now and closed again: to be told, not to be used."""
    choice = await chosen_sandbox(settings, is_anew=True)
    if choice.backend is not None:
        await choice.backend.close()
    return choice


def _refuse_precious(settings: Settings, roots: tuple[Path, ...]) -> None:
    try:
        settings.refuse_precious(roots, "--root")
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def open_runtime(
    settings: Settings,
    *,
    opened: Iterable[ToolMode] = (),
    roots: tuple[Path, ...] | None = None,
    sandbox: Choice = NO_SANDBOX,
    tools: Iterable[BaseTool] = (),
) -> Runtime:
    """Build everything. `opened` and `roots` are what the local operator said on the command line.

    `tools` are those of a program that embeds the gates.
    """
    _refuse_precious(settings, roots or ())
    redactor = redactor_for(settings)
    redact_lines(redactor.value)
    database = open_database(store_config(settings))
    log = EventLog(database, redactor)
    open_modes = settings.session.open_modes | frozenset(opened)
    wire = _wire(settings)
    bell = InProcessBell(wire)
    questions = QuestionDesk(database, log, redactor, bell.ring)
    folders = roots or settings.tool.allowed_roots
    kept, outputs, sealed, *_ = places = _places(settings, log, sandbox, folders or ())
    runs, delegation = RunBook(database, log, redactor), Delegation()
    try:
        registry = _tools(settings, database, redactor, questions, places, runs, delegation, log, tools)
    except BaseException:
        log.close()
        database.close()
        raise
    lives = _lives(database.config)
    situation = situation_of(settings, open_modes, folders, sandbox)
    walls = Walls(None if sandbox is NO_SANDBOX else sandbox, lambda: chosen_sandbox(settings, roots))
    mcp = open_mcp(settings, database, log, redactor, registry, situation, walls)
    stored_settings, authorities = SettingsStore(database, log, redactor), AuthorityCache(registry)
    authority = AuthoritySource(database, stored_settings, mcp, registry, authorities, situation)
    return Runtime(
        *(settings, database, redactor, log, wire, bell),
        sessions=_sessions(settings, database, log, redactor, open_modes),
        eraser=SessionEraser(database, log, (kept.forget, outputs.forget, sealed.forget)),
        lives=lives,
        leases=SessionLeases(log, seconds=settings.session.lease_seconds, lives=lives),
        mode_switch=ModeSwitch(log, open_modes=open_modes),
        stored_settings=stored_settings,
        questions=questions,
        undo=_undo_desk(settings, kept, database, log),
        runs=runs,
        delegation=delegation,
        mcp=mcp,
        registry=registry,
        authorities=authorities,
        authority=authority,
        runner=ToolRunner(registry, log, redactor, sealed, authority),
        sealed=sealed,
        sandbox=sandbox,
        situation=situation,
        retention=_retention(settings, database, log, sealed),
    )


def _places(settings: Settings, log: EventLog, sandbox: Choice, roots: tuple[Path, ...]) -> Places:
    share_memory(settings.state_dir / "guard", lambda paths: _record_put_back(log, paths))
    outputs = KeptOutputs(settings.state_dir / "outputs", max_bytes=MAX_OUTPUT_BYTES)
    # Not waited for: a command may have left very much.
    Thread(target=_remove_abandoned, args=(outputs, roots), name="interlock-abandoned", daemon=True).start()
    return Places(
        KeptVersions(settings.state_dir / "kept", max_bytes=settings.tool.kept_bytes),
        outputs,
        SealedArguments(settings.state_dir / "sealed"),
        sandbox,
        roots,
    )


def _record_put_back(log: EventLog, paths: list[str]) -> None:
    """On disk when it returns. It comes in any thread, also in that of the loop: so in one of its own."""
    from concurrent.futures import ThreadPoolExecutor

    event = ProtectedRestored(paths=paths[:MAX_RESTORED_TOLD])
    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, log.append(SYSTEM_STREAM, event)).result()
    except InterlockError as error:
        _log.error("protected_names_not_recorded", error=str(error))


def _remove_abandoned(outputs: KeptOutputs, roots: tuple[Path, ...]) -> None:
    """What the commands of processes that were killed left behind."""
    outputs.remove_abandoned()
    with suppress(SandboxUnavailable):
        remove_abandoned_directories(place_outside(roots))


def _lives(config: StoreConfig) -> Lives | None:
    """Beside an SQLite store: who uses one that machines share may be on any of them."""
    return Lives(config.path.with_name(f"{config.path.name}.lives")) if config.is_sqlite else None


def _undo_desk(settings: Settings, kept: KeptVersions, database: Database, log: EventLog) -> UndoDesk:
    async def session_of(task_id: str) -> str | None:
        rows = await database.read(lambda db: db.query(SESSION_OF, (storable(task_id),)))
        return str(rows[0][0]) if rows else None

    return UndoDesk(
        *(kept, log, session_of),
        protected_names=settings.tool.protected_names,
        has_other_machines=database.dialect != "sqlite",
    )


def _wire(settings: Settings) -> Wire:
    given = settings.nats
    if given.url is None:
        return LocalWire(settings.state_dir)
    try:
        from interlock.worker.nats_wire import NatsWire
    except ImportError:
        raise ConfigurationError("NATS_URL needs an extra: pip install 'interlock-runtime[nats]'") from None
    return NatsWire(_nats_servers(settings), given.prefix)


def _nats_servers(settings: Settings) -> "Servers":
    from interlock.worker.nats_wire import Servers

    given = settings.nats
    is_encrypted = any(server.startswith("tls:") for server in given.servers)
    tls = ssl.create_default_context(cafile=given.tls_ca) if is_encrypted else None
    return Servers(given.servers, *given.credentials, tls)


async def tried_nats(settings: Settings) -> str:
    """What is wrong with the servers of NATS_URL; empty where they can be used."""
    from interlock.worker.nats_wire import tried

    return await tried(_nats_servers(settings), settings.nats.prefix)


def _tools(
    settings: Settings,
    database: Database,
    redactor: Redactor,
    questions: QuestionDesk,
    places: Places,
    runs: RunBook,
    delegation: Delegation,
    log: EventLog,
    own: Iterable[BaseTool],
) -> ToolRegistry:
    desk = WritingDesk(FileChanges(places.kept), SeenFiles(database.reading))
    bash, rg = (locate(program, places.roots) for program in (BASH, RG))
    shell = ShellServices(places.sandbox.backend, bash, redactor, places.outputs, JobLimits(), log)
    registry = build_registry(
        questions,
        FileServices(redactor, desk, rg),
        shell,
        _images(settings, redactor, desk),
        memory_services(settings.workspace_dir, database, redactor),
        runs,
        delegation,
    )
    for tool in own:
        registry.register(tool)
    override_modes(registry, settings.tool.mode_overrides)
    return registry


def _retention(
    settings: Settings, database: Database, log: EventLog, sealed: SealedArguments
) -> Retention | None:
    days = settings.retention_days
    return None if days is None else Retention(log, database, days, forget_before=sealed.forget_before)


def _images(settings: Settings, redactor: Redactor, desk: WritingDesk) -> ImageServices:
    endpoint = image_endpoint(settings)
    return ImageServices(endpoint if isinstance(endpoint, ImageEndpoint) else None, redactor, desk)


async def record_probes(runtime: Runtime) -> None:
    """What was tried against the sandbox stands in the log before anything relies on it."""
    for report in runtime.sandbox.reports:
        rows = [[row.name, row.holds, row.detail] for row in report.rows]
        event = SandboxProbed(backend=report.backend, holds=report.ok, rows=rows)
        await runtime.log.append(SYSTEM_STREAM, event)


async def record_missing_needs(runtime: Runtime) -> list[MissingNeed]:
    """Record what this machine lacks for tools; `UnreadableSettings` where no tool is offered anyway."""
    stored = await runtime.stored_settings.current()
    situation = replace(runtime.situation, settings=stored.settings.tools)
    missing = missing_needs(runtime.authorities, situation)
    for need, reason, tools in missing:
        event = ToolsUnavailable(need=need, reason=reason, tools=list(tools), pid=os.getpid())
        await runtime.log.append(SYSTEM_STREAM, event)
    return missing


def _sessions(
    settings: Settings,
    database: Database,
    log: EventLog,
    redactor: Redactor,
    open_modes: frozenset[ToolMode],
) -> SessionManager:
    return SessionManager(
        *(database, log, redactor),
        default_mode=ToolMode(settings.session.default_mode),
        open_modes=open_modes,
    )


def store_config(settings: Settings) -> StoreConfig:
    return StoreConfig(
        url=settings.database_url,
        busy_timeout_seconds=settings.database.busy_timeout_seconds,
        synchronous=settings.database.synchronous,
    )


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
