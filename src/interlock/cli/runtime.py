"""Opens the runtime for one command and closes it again."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.output import note
from interlock.config.folders import links_to, refuse_loading, refuse_steered
from interlock.config.modes import ToolMode, parse_mode
from interlock.infra.errors import BadUsage, ConfigurationError, StoreAway
from interlock.infra.text import is_utf8

WAIT_SECONDS = 2.0

if TYPE_CHECKING:
    from interlock.wiring import Runtime
    from interlock.wiring.office import Office


@asynccontextmanager
async def opened_runtime(
    *,
    opened: Iterable[ToolMode] = (),
    roots: tuple[Path, ...] | None = None,
    sandboxed: bool = False,
    is_checked: bool = False,
    usual_log_level: str | None = None,
    is_patient: bool = False,
) -> "AsyncIterator[Runtime]":
    """With `sandboxed`, tools may run commands: what confines them is tried out first.

    With `is_checked`, the person is warned of mistyped variables and of tools that this machine lacks.
    `usual_log_level` holds where the operator has not set LOG_LEVEL. With `is_patient`, a database that is
    away is waited for.
    """
    from interlock.config.settings import load_settings
    from interlock.infra.heap import keep_tidy, set_up_heaps
    from interlock.infra.logging import show_log
    from interlock.wiring import NO_SANDBOX, chosen_sandbox, open_runtime, record_probes

    set_up_heaps()
    if is_checked:
        _warn_of_typos()
    settings = load_settings()
    if usual_log_level is not None and "log_level" not in settings.model_fields_set:
        settings = settings.model_copy(update={"log_level": usual_log_level})
    show_log(settings.log_level)
    try:
        # What is worse is told first.
        settings.refuse_precious(roots or (), "--root")
        refuse_loading(roots or settings.tool.allowed_roots or ())
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    # Without a folder to work in there is no shell, and nothing to confine.
    has_roots = bool(roots or settings.tool.allowed_roots)
    sandbox = await chosen_sandbox(settings, roots) if sandboxed and has_roots else NO_SANDBOX
    runtime = None
    while runtime is None:
        try:
            runtime = open_runtime(settings, opened=opened, roots=roots, sandbox=sandbox)
        except StoreAway as error:
            if not is_patient:
                raise
            note(f"waiting for the database: {error}")
            await asyncio.sleep(WAIT_SECONDS)
    tidying = asyncio.create_task(keep_tidy())
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
async def opened_office(
    *, sandboxed: bool = False, is_checked: bool = False, is_patient: bool = False
) -> "AsyncIterator[Office]":
    """With whoever works in it, for commands about tasks."""
    from interlock.wiring.office import open_office

    async with opened_runtime(sandboxed=sandboxed, is_checked=is_checked, is_patient=is_patient) as runtime:
        office = open_office(runtime)
        try:
            yield office
        finally:
            await office.close()


def _warn_of_typos() -> None:
    """Whoever misspells what should close something is not to learn of it from what was left open."""
    from interlock.config.describe import unknown_variables

    for name, near in unknown_variables().items():
        if near is not None:
            note(f"warning: {name} is set but is not a setting; did you mean {near}?")


async def _warn_of_missing_needs(runtime: "Runtime") -> None:
    from interlock.session.settings_store import UnreadableSettings
    from interlock.wiring import record_missing_needs

    try:
        missing = await record_missing_needs(runtime)
    except UnreadableSettings as error:
        note(f"warning: no task can run: {error}")
        return
    for each in missing:
        note(f"warning: {', '.join(each.tools)} cannot be used: {each.reason}")


def mode_argument(value: str) -> ToolMode:
    try:
        return parse_mode(value)
    except ValueError as error:
        raise BadUsage(str(error)) from None


def root_arguments(given: Iterable[Path]) -> tuple[Path, ...] | None:
    """The folders named with --root, resolved; None when none was named."""
    named, roots = list(given), []
    for path in named:
        resolved = path.resolve()
        if not resolved.is_dir():
            raise BadUsage(f"--root {path}: no such folder")
        if not is_utf8(str(resolved)):
            raise BadUsage(f"--root {path}: it resolves to a folder whose name is not valid UTF-8")
        if any(links_to(path)):
            # Somebody who worked in the folder above may have put the link there.
            note(f"--root {path} resolves to {resolved}")
        roots.append(resolved)
    try:
        refuse_steered(named, roots)
    except ValueError as error:
        raise BadUsage(f"--root: {error}") from None
    return tuple(dict.fromkeys(roots)) or None
