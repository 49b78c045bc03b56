"""Opens the runtime for one command and closes it again."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.output import note
from interlock.config.directory_checks import (
    reject_symlinked_roots,
    reject_writable_code_paths,
    symlinks_on_path,
)
from interlock.config.modes import ToolMode, parse_mode
from interlock.core.errors import BadUsage, ConfigurationError, StoreUnavailable
from interlock.core.text import is_utf8

WAIT_SECONDS = 2.0

if TYPE_CHECKING:
    from interlock.wiring import Runtime
    from interlock.wiring.agents import AgentRuntime


@asynccontextmanager
async def open_cli_runtime(
    *,
    opened: Iterable[ToolMode] = (),
    roots: tuple[Path, ...] | None = None,
    sandboxed: bool = False,
    is_checked: bool = False,
    usual_log_level: str | None = None,
    is_patient: bool = False,
) -> "AsyncIterator[Runtime]":
    """Open the runtime for one command and close it again.

    With `sandboxed`, tools may run commands; the sandbox is probed first. With `is_checked`, warn about
    mistyped variables and tools that this machine lacks. `usual_log_level` applies unless the operator set
    LOG_LEVEL. With `is_patient`, wait for an unavailable database.
    """
    from interlock.config.settings import load_settings
    from interlock.core.logging import log_to_stderr
    from interlock.core.memory_tuning import limit_malloc_arenas, trim_memory_forever
    from interlock.wiring import NO_SANDBOX, open_runtime, record_probes, select_sandbox

    limit_malloc_arenas()
    if is_checked:
        _warn_of_typos()
    settings = load_settings()
    if usual_log_level is not None and "log_level" not in settings.model_fields_set:
        settings = settings.model_copy(update={"log_level": usual_log_level})
    log_to_stderr(settings.log_level)
    try:
        # Report the worse problem first.
        settings.reject_sensitive_roots(roots or (), "--root")
        reject_writable_code_paths(roots or settings.tool.allowed_roots or ())
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    # Without a root there is no shell, and nothing to confine.
    has_roots = bool(roots or settings.tool.allowed_roots)
    sandbox = await select_sandbox(settings, roots) if sandboxed and has_roots else NO_SANDBOX
    runtime = None
    while runtime is None:
        try:
            runtime = open_runtime(settings, opened=opened, roots=roots, sandbox=sandbox)
        except StoreUnavailable as error:
            if not is_patient:
                raise
            note(f"waiting for the database: {error}")
            await asyncio.sleep(WAIT_SECONDS)
    tidying = asyncio.create_task(trim_memory_forever())
    try:
        await record_probes(runtime)
        if is_checked:
            await _warn_of_missing_needs(runtime)
        yield runtime
    finally:
        tidying.cancel()
        await asyncio.wait({tidying})
        await runtime.close()


@asynccontextmanager
async def open_cli_agent_runtime(
    *, sandboxed: bool = False, is_checked: bool = False, is_patient: bool = False
) -> "AsyncIterator[AgentRuntime]":
    """Open the agent runtime, for commands about tasks."""
    from interlock.wiring.agents import open_agent_runtime

    async with open_cli_runtime(
        sandboxed=sandboxed, is_checked=is_checked, is_patient=is_patient
    ) as runtime:
        agent_runtime = open_agent_runtime(runtime)
        try:
            yield agent_runtime
        finally:
            await agent_runtime.close()


def _warn_of_typos() -> None:
    """Warn about mistyped variables: a misspelled restriction would silently restrict nothing."""
    from interlock.config.settings_report import unknown_variables

    for name, near in unknown_variables().items():
        if near is not None:
            note(f"warning: {name} is set but is not a setting; did you mean {near}?")


async def _warn_of_missing_needs(runtime: "Runtime") -> None:
    from interlock.sessions.runtime_settings import UnreadableSettings
    from interlock.wiring import record_missing_requirements

    try:
        missing = await record_missing_requirements(runtime)
    except UnreadableSettings as error:
        note(f"warning: no task can run: {error}")
        return
    for each in missing:
        note(f"warning: {', '.join(each.tools)} cannot be used: {each.reason}")


def parse_mode_argument(value: str) -> ToolMode:
    try:
        return parse_mode(value)
    except ValueError as error:
        raise BadUsage(str(error)) from None


def resolve_root_arguments(given: Iterable[Path]) -> tuple[Path, ...] | None:
    """The directories given with --root, resolved; None if none was given."""
    named, roots = list(given), []
    for path in named:
        resolved = path.resolve()
        if not resolved.is_dir():
            raise BadUsage(f"--root {path}: no such folder")
        if not is_utf8(str(resolved)):
            raise BadUsage(f"--root {path}: it resolves to a folder whose name is not valid UTF-8")
        if any(symlinks_on_path(path)):
            # An agent that could write to the parent directory may have created the symlink.
            note(f"--root {path} resolves to {resolved}")
        roots.append(resolved)
    try:
        reject_symlinked_roots(named, roots)
    except ValueError as error:
        raise BadUsage(f"--root: {error}") from None
    return tuple(dict.fromkeys(roots)) or None
