"""Opens the gates for an embedding program."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from interlock.config.directory_checks import reject_symlinked_roots
from interlock.config.modes import ToolMode, parse_mode
from interlock.config.settings import load_settings
from interlock.core.errors import ConfigurationError
from interlock.embed.function_tools import reject_single_string
from interlock.gates.gate import ToolCall
from interlock.log.hash_chain import new_event_id
from interlock.log.verify.event_log import VerificationReport
from interlock.policy.authority import Authority
from interlock.policy.authority_inputs import ModeSwitching
from interlock.policy.verdict import ModeSwitchMethod
from interlock.tools.result import ToolResult
from interlock.tools.tool import BaseTool, ToolContext
from interlock.wiring import (
    NO_SANDBOX,
    Runtime,
    UndoReport,
    local_actor,
    open_runtime,
    record_probes,
    select_sandbox,
)
from interlock.wiring.runtime import store_verifier

OPENED_BY = "embed"


@asynccontextmanager
async def open_gates(
    *,
    modes: Iterable[str] = (),
    roots: Iterable[Path | str] = (),
    tools: Iterable[BaseTool] = (),
    state_dir: Path | str | None = None,
) -> "AsyncIterator[Gates]":
    """Open the gates for this process, and close them at the end.

    modes: opened besides `chat_safe` and those of SESSION_OPEN_MODES.
    roots: the directories that tools may work in, instead of TOOL_ALLOWED_ROOTS.
    tools: your own, beside the built-in ones.
    state_dir: where the log is kept, instead of INTERLOCK_STATE_DIR.

    Every other setting of the environment applies as it does to `interlock`, as a ceiling. While they are
    open, signed checkpoints are written and sent as EVENT_CHECKPOINT_EVENTS and EVENT_ANCHORS say.
    """
    for name, given in (("modes", modes), ("roots", roots)):
        reject_single_string(name, given)
    settings = load_settings(state_dir=None if state_dir is None else Path(state_dir))
    opened = [parse_mode(name) for name in modes]
    folders = _folders([Path(root) for root in roots]) or None
    has_roots = bool(folders or settings.tool.allowed_roots)
    sandbox = await select_sandbox(settings, folders) if has_roots else NO_SANDBOX
    try:
        runtime = open_runtime(settings, opened=opened, roots=folders, sandbox=sandbox, tools=tools)
    except BaseException:
        if sandbox.backend is not None:
            await sandbox.backend.close()
        raise
    try:
        await record_probes(runtime)
        async with runtime.checkpointing():
            yield Gates(runtime)
    finally:
        await runtime.close()


def _folders(roots: list[Path]) -> tuple[Path, ...]:
    found = tuple(dict.fromkeys(root.resolve() for root in roots))
    if missing := [root for root in roots if not root.is_dir()]:
        raise ConfigurationError(f"{missing[0]}: no such folder")
    try:
        reject_symlinked_roots(roots, found)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    return found


class Gates:
    """The result of `open_gates`. Calls are made in sessions, as everything in the log is."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def session(self, mode: str = "chat_safe", *, title: str = "") -> "GatedSession":
        """Create a session. A mode that was not opened is refused with `ModeNotOpen`."""
        made = await self._runtime.sessions.create(opened_by=OPENED_BY, title=title, mode=parse_mode(mode))
        return GatedSession(self._runtime, made.id)

    async def resume(self, session_id: str) -> "GatedSession":
        """An existing session, of this program or any other on the same store."""
        return GatedSession(self._runtime, (await self._runtime.sessions.get(session_id)).id)

    async def verify(self) -> VerificationReport:
        """Check every hash of the log: `report.ok`, `report.events`, `report.faults`."""
        return await store_verifier(self._runtime.settings).verify(self._runtime.database)


class GatedSession:
    """One session. Its mode decides; its calls are in the log under its `id`."""

    def __init__(self, runtime: Runtime, session_id: str) -> None:
        self._runtime = runtime
        self.id = session_id

    async def mode(self) -> ToolMode:
        return await self._runtime.sessions.get_mode(self.id)

    async def switch(self, mode: str) -> None:
        """Switch the mode. Only your program can, on a person's request: no tool and no model can."""
        await self._runtime.mode_switch.switch(self.id, parse_mode(mode), who=local_actor())

    async def authority(self) -> Authority:
        """The present permissions: the verdict on every tool, frozen, and identified by its digest.

        Raises `SessionNotFound` once the session was deleted.
        """
        await self._runtime.sessions.get(self.id)
        switching = ModeSwitching(ModeSwitchMethod.program, self._runtime.authority_inputs.open_modes)
        return await self._runtime.authority(
            await self.mode(), someone_can_answer=False, switching=switching
        )

    async def offered(self) -> list[dict[str, Any]]:
        """The first gate: the tools to offer to a model now, as function schemas."""
        schemas: list[dict[str, Any]] = orjson.loads((await self.authority()).schemas)
        return schemas

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> ToolResult:
        """The second gate, and the call. Arguments may be the JSON text that a model wrote.

        A refusal or a failure raises nothing: `result.ok` is false, and `result.failure` says why.
        """
        call = ToolCall(f"call_{new_event_id()[-12:]}", name, arguments or {}, timeout_seconds)
        return await self._runtime.runner.call(call, await self.authority(), ToolContext(self.id))

    async def undo(self) -> UndoReport:
        """Undo this session's file changes. Files changed since are skipped, with the reason."""
        return await self._runtime.undo.revert(self.id, who=local_actor())
