"""Builds one process's Interlock: the store, the log, the gates, the tools. `agents.py` adds the agents."""

import asyncio
import os
import pwd
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from interlock.config.image import ImageEndpoint, image_endpoint
from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.core.errors import ConfigurationError, InterlockError
from interlock.core.logging import StructuredLogger, set_log_redaction
from interlock.core.text import sanitize_text
from interlock.db.database import Database, StoreConfig, open_database
from interlock.db.leases import Leases
from interlock.db.process_liveness import ProcessLocks
from interlock.gates.explain import PermissionViews
from interlock.gates.mcp_administration import McpAdministration
from interlock.gates.runner import ToolRunner
from interlock.log.checkpoint import CheckpointInterval
from interlock.log.kinds import SYSTEM_STREAM, ProtectedRestoredAfterCrash, SandboxProbed, ToolsUnavailable
from interlock.log.retention import RetentionSweeper
from interlock.log.signing import SigningKeyStore
from interlock.log.writer import EventLog
from interlock.policy.authority import AuthorityCache
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.policy_fields import ToolPolicy
from interlock.questions.service import QuestionService
from interlock.redaction.factory import build_redactor
from interlock.redaction.redactor import Redactor
from interlock.runtime.anchor_sender import AnchorSender
from interlock.runtime.anchor_sinks import AnchorSink, FileSink, JournalSink, NatsSink, WebhookSink
from interlock.runtime.bus import Bus, BusTransport, WorkAvailable
from interlock.runtime.checkpointer import Checkpointer
from interlock.runtime.store_verification import StoreVerifier
from interlock.runtime.task_rows import SESSION_OF
from interlock.runtime.unix_socket_transport import UnixSocketTransport
from interlock.sandbox.backend_selection import BackendSelection, choose_backend
from interlock.sandbox.file_changer import FileChanger
from interlock.sandbox.jobs import JobLimits, SandboxUnavailable
from interlock.sandbox.programs import BASH, RG, locate
from interlock.sandbox.protected_snapshot import share_snapshots
from interlock.sandbox.temporary_directories import choose_temporary_root, remove_abandoned_directories
from interlock.sandbox.undo_store import UndoStore
from interlock.sessions.erasure import SessionEraser
from interlock.sessions.manager import SessionManager
from interlock.sessions.mode_switch import ModeSwitch
from interlock.sessions.runtime_settings import SettingsStore
from interlock.tools.builtins.delegate import SubtaskRunnerSlot
from interlock.tools.builtins.generate_image import ImageServices
from interlock.tools.builtins.registration import FileServices
from interlock.tools.files.read_history import ReadHistory
from interlock.tools.files.undo_service import UndoReport, UndoService
from interlock.tools.files.write_checks import WriteServices
from interlock.tools.mcp.pool import LazySandbox
from interlock.tools.mcp.service import McpService
from interlock.tools.registry import ToolRegistry
from interlock.tools.sealed_argument_store import SealedArgumentStore
from interlock.tools.shell.output_spool import OutputSpool
from interlock.tools.shell.tool import ShellServices
from interlock.tools.tool import BaseTool
from interlock.wiring.authority_inputs import (
    AT_WORK,
    NO_SANDBOX,
    MissingRequirement,
    build_authority_inputs,
    missing_requirements,
)
from interlock.wiring.current_authority import CurrentAuthority
from interlock.wiring.projections import ERASE_SESSION, PROJECTIONS
from interlock.wiring.tool_services import build_registry, memory_services, open_mcp, override_modes
from interlock.workflow.run_reader import RunReader

if TYPE_CHECKING:
    from interlock.runtime.nats_transport import NatsServers

__all__ = ["Runtime", "UndoReport", "open_runtime"]

# All command output that is kept for paging, of all sessions together.
MAX_OUTPUT_BYTES = 256 * 1024 * 1024
# The most paths recorded of what a killed process left changed.
MAX_RESTORED_TOLD = 50

_log = StructuredLogger(__name__)


@dataclass(frozen=True, slots=True)
class Runtime:
    """One process's Interlock. `close` it."""

    settings: Settings
    database: Database
    redactor: Redactor
    log: EventLog
    bus: Bus
    sessions: SessionManager
    eraser: SessionEraser
    # Which processes that share an SQLite store are alive.
    lives: ProcessLocks | None
    leases: Leases
    mode_switch: ModeSwitch
    stored_settings: SettingsStore
    questions: QuestionService
    undo: UndoService
    # The stored runs of workflows; and the target of agents' delegations.
    runs: RunReader
    delegation: SubtaskRunnerSlot
    # Tools of MCP servers, which come and go.
    mcp: McpService
    mcp_servers: McpAdministration
    registry: ToolRegistry
    authorities: AuthorityCache
    # The present permissions: `await runtime.authority(mode)`.
    authority: CurrentAuthority
    views: PermissionViews
    runner: ToolRunner
    # The unmasked arguments of calls where the log masks them.
    sealed: SealedArgumentStore
    sandbox: BackendSelection
    authority_inputs: AuthorityInputs
    # The keys that this process can sign checkpoints with.
    signing_keys: SigningKeyStore
    checkpointer: Checkpointer
    anchors: AnchorSender
    # None: content is kept for ever.
    retention: RetentionSweeper | None = None

    def housekeeping(self) -> "list[Callable[[], Coroutine[None, None, None]]]":
        """What a process that serves people does to the store besides; each runs until cancelled."""
        sweeping = [] if self.retention is None else [self.retention.run_hourly]
        return [self.checkpointer.run, self.anchors.run, *sweeping]

    @asynccontextmanager
    async def checkpointing(self) -> "AsyncIterator[None]":
        """Write checkpoints and send their anchors while the block runs."""
        beside = [asyncio.create_task(part()) for part in (self.checkpointer.run, self.anchors.run)]
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)

    async def finish_housekeeping(self) -> None:
        """At a clean shutdown, when nothing more is written."""
        await self.checkpointer.finish()
        await self.anchors.finish()

    async def close(self) -> None:
        await self.mcp.close()
        if self.sandbox.backend is not None:
            await self.sandbox.backend.close()
        self.log.close()
        self.database.close()
        if self.lives is not None:
            # Nothing is written here any more: leases that could not be released become free for others.
            self.lives.close()


async def select_sandbox(
    settings: Settings, roots: tuple[Path, ...] | None = None, *, is_anew: bool = False
) -> BackendSelection:
    """Select and probe the sandbox; the result is cached until something it depends on changes."""
    if not is_anew:
        # The first start has no directory for the cache. If it cannot be created, the store says why.
        with suppress(OSError):
            settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return await choose_backend(
        settings.tool.sandbox,
        state_folder=settings.state_dir,
        is_anew=is_anew,
        opened=roots or settings.tool.allowed_roots or (),
    )


async def probe_sandbox(settings: Settings) -> BackendSelection:
    """The same, probed now and closed again: for a report, not for use."""
    choice = await select_sandbox(settings, is_anew=True)
    if choice.backend is not None:
        await choice.backend.close()
    return choice


def _reject_sensitive_roots(settings: Settings, roots: tuple[Path, ...]) -> None:
    try:
        settings.reject_sensitive_roots(roots, "--root")
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def open_runtime(
    settings: Settings,
    *,
    opened: Iterable[ToolMode] = (),
    roots: tuple[Path, ...] | None = None,
    sandbox: BackendSelection = NO_SANDBOX,
    tools: Iterable[BaseTool] = (),
) -> Runtime:
    """Build everything. `opened` and `roots` are the local operator's options on the command line.

    `tools` are those of a program that embeds the gates.
    """
    _reject_sensitive_roots(settings, roots or ())
    redactor = build_redactor(settings)
    set_log_redaction(redactor.value)
    bus = Bus(_bus_transport(settings))
    database = open_database(store_config(settings))
    log = EventLog(database, redactor, PROJECTIONS, bus.publish_committed)
    open_modes = settings.session.open_modes | frozenset(opened)
    questions = QuestionService(
        database, log, redactor, lambda session_id: bus.publish(WorkAvailable(session_id))
    )
    folders = roots or settings.tool.allowed_roots
    share_snapshots(settings.state_dir / "guard", lambda paths: _record_put_back(log, paths))
    kept = UndoStore(settings.state_dir / "kept", max_bytes=settings.tool.kept_bytes)
    outputs = OutputSpool(settings.state_dir / "outputs", max_bytes=MAX_OUTPUT_BYTES)
    sealed = SealedArgumentStore(settings.state_dir / "sealed")
    # Not awaited: a command may have left very much.
    abandoned = (outputs, folders or ())
    Thread(target=_remove_abandoned, args=abandoned, name="interlock-abandoned", daemon=True).start()
    runs, delegation = RunReader(database, log, redactor), SubtaskRunnerSlot()
    write_services = WriteServices(FileChanger(kept), ReadHistory(database.reading))
    bash, rg = (locate(program, folders or ()) for program in (BASH, RG))
    images = image_endpoint(settings.image, settings.openai)
    try:
        registry = build_registry(
            questions,
            FileServices(redactor, write_services, rg),
            ShellServices(sandbox.backend, bash, redactor, outputs, JobLimits(), log),
            ImageServices(images if isinstance(images, ImageEndpoint) else None, redactor, write_services),
            memory_services(settings.workspace_dir, settings.state_dir, database, redactor),
            runs,
            delegation,
        )
        for tool in tools:
            registry.register(tool)
        override_modes(registry, settings.tool.mode_overrides)
    except BaseException:
        log.close()
        database.close()
        raise
    lives = _process_locks(database.config)
    authority_inputs = build_authority_inputs(settings, open_modes, folders, sandbox)
    walls = LazySandbox(None if sandbox is NO_SANDBOX else sandbox, lambda: select_sandbox(settings, roots))
    mcp = open_mcp(settings, database, log, redactor, registry, authority_inputs, walls)
    stored_settings, authorities = SettingsStore(database, log, redactor), AuthorityCache(registry)
    keys, given = signing_keys(settings), settings.proof
    interval = CheckpointInterval(given.checkpoint_events, given.checkpoint_minutes * 60.0)
    authority = CurrentAuthority(database, stored_settings, mcp, registry, authorities, authority_inputs)
    return Runtime(
        *(settings, database, redactor, log, bus),
        sessions=SessionManager(
            *(database, log, redactor),
            default_mode=ToolMode(settings.session.default_mode),
            open_modes=open_modes,
        ),
        eraser=SessionEraser(
            database,
            log,
            tuple(store.files.delete_session for store in (kept, outputs, sealed)),
            statements=ERASE_SESSION,
        ),
        lives=lives,
        leases=Leases(log, seconds=settings.session.lease_seconds, lives=lives),
        mode_switch=ModeSwitch(log, open_modes=open_modes),
        stored_settings=stored_settings,
        questions=questions,
        undo=_undo_service(settings, kept, database, log),
        runs=runs,
        delegation=delegation,
        mcp=mcp,
        mcp_servers=McpAdministration(
            mcp,
            redactor,
            authority_inputs,
            lambda: _stored_policy(stored_settings),
            settings.reject_sensitive_roots,
        ),
        registry=registry,
        authorities=authorities,
        authority=authority,
        views=PermissionViews(registry, authority, open_modes, redactor, AT_WORK),
        runner=ToolRunner(registry, log, redactor, sealed, authority),
        sealed=sealed,
        sandbox=sandbox,
        authority_inputs=authority_inputs,
        signing_keys=keys,
        checkpointer=Checkpointer(database, log, keys, interval),
        anchors=AnchorSender(database, log, [_anchor_sink(settings, sink) for sink in given.anchors]),
        retention=None
        if settings.retention_days is None
        else RetentionSweeper(
            log, database, settings.retention_days, forget_before=sealed.files.delete_before
        ),
    )


async def _stored_policy(stored: SettingsStore) -> ToolPolicy:
    return (await stored.current()).settings.tools


def _record_put_back(log: EventLog, paths: list[str]) -> None:
    """Append and wait until it is on disk. Called in any thread, also the loop's: so it uses its own."""
    from concurrent.futures import ThreadPoolExecutor

    async def append() -> None:
        await log.append(SYSTEM_STREAM, ProtectedRestoredAfterCrash(paths=paths[:MAX_RESTORED_TOLD]))

    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, append()).result()
    except InterlockError as error:
        _log.error("protected_names_not_recorded", error=str(error))


def _remove_abandoned(outputs: OutputSpool, roots: tuple[Path, ...]) -> None:
    """Remove what the commands of killed processes left behind."""
    outputs.remove_abandoned()
    with suppress(SandboxUnavailable):
        remove_abandoned_directories(choose_temporary_root(roots))


def _process_locks(config: StoreConfig) -> ProcessLocks | None:
    """Only for an SQLite store: the users of a shared one may be on any machine."""
    return ProcessLocks(config.path.with_name(f"{config.path.name}.lives")) if config.is_sqlite else None


def _undo_service(settings: Settings, kept: UndoStore, database: Database, log: EventLog) -> UndoService:
    async def session_of(task_id: str) -> str | None:
        rows = await database.read(lambda db: db.query(SESSION_OF, (sanitize_text(task_id),)))
        return str(rows[0][0]) if rows else None

    return UndoService(
        *(kept, log, session_of),
        protected_names=settings.tool.protected_names,
        has_other_machines=database.dialect != "sqlite",
    )


def _bus_transport(settings: Settings) -> BusTransport:
    """How the processes that share this store notify each other."""
    given = settings.nats
    if given.url is None:
        return UnixSocketTransport(settings.state_dir)
    try:
        from interlock.runtime.nats_transport import NatsTransport
    except ImportError:
        raise ConfigurationError("NATS_URL needs an extra: pip install 'interlock-runtime[nats]'") from None
    return NatsTransport(_nats_servers(settings), given.prefix)


def _nats_servers(settings: Settings) -> "NatsServers":
    from interlock.runtime.nats_transport import NatsServers

    given = settings.nats
    is_encrypted = any(server.startswith("tls:") for server in given.servers)
    tls = ssl.create_default_context(cafile=given.tls_ca) if is_encrypted else None
    return NatsServers(given.servers, *given.credentials, tls)


async def check_nats(settings: Settings) -> str:
    """What is wrong with the servers of NATS_URL; empty if they can be used."""
    from interlock.runtime.nats_transport import check_nats_servers

    return await check_nats_servers(_nats_servers(settings), settings.nats.prefix)


def store_verifier(settings: Settings) -> StoreVerifier:
    return StoreVerifier(settings.proof, lambda: signing_keys(settings), PROJECTIONS)


def signing_keys(settings: Settings) -> SigningKeyStore:
    given = settings.proof.signing_key
    folder = settings.state_dir / "signing"
    return SigningKeyStore(folder, None if given is None else given.get_secret_value())


def _anchor_sink(settings: Settings, address: str) -> AnchorSink:
    kind, _, rest = address.partition(":")
    match kind:
        case "file":
            return FileSink(Path(rest))
        case "journald":
            return JournalSink()
        case "nats":
            return NatsSink(rest, lambda: _nats_servers(settings))
        case _:
            return WebhookSink(address)


async def record_probes(runtime: Runtime) -> None:
    """Record the sandbox's probes before anything relies on them."""
    for report in runtime.sandbox.reports:
        rows = [[row.name, row.holds, row.detail] for row in report.rows]
        event = SandboxProbed(backend=report.backend, holds=report.ok, rows=rows)
        await runtime.log.append(SYSTEM_STREAM, event)


async def record_missing_requirements(runtime: Runtime) -> list[MissingRequirement]:
    """Record what this machine lacks for tools. Raises `UnreadableSettings`; then no tool is offered."""
    stored = await runtime.stored_settings.current()
    authority_inputs = replace(runtime.authority_inputs, settings=stored.settings.tools)
    missing = missing_requirements(runtime.authorities, authority_inputs)
    for need, reason, tools in missing:
        event = ToolsUnavailable(need=need, reason=reason, tools=list(tools), pid=os.getpid())
        await runtime.log.append(SYSTEM_STREAM, event)
    return missing


def store_config(settings: Settings) -> StoreConfig:
    return StoreConfig(
        url=settings.database_url,
        busy_timeout_seconds=settings.database.busy_timeout_seconds,
        synchronous=settings.database.synchronous,
    )


def unmatchable_denials(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Entries of the operator's denylist of commands that can never match, and why."""
    from interlock.commands.judge import CommandJudge

    return CommandJudge(settings.tool.bash_denylist, (), Path.home()).unmatchable_entries


def local_actor() -> str:
    """The name of this command line's user in the log."""
    try:
        # The account that runs this, not what its environment claims.
        return f"local:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"local:{os.getuid()}"
