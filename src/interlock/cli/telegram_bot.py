"""`interlock telegram`: a bot for listed people to chat with an agent, and a worker for it."""

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING

from interlock.cli.exit_codes import ExitCode
from interlock.cli.front_end_workers import (
    FrontEndWorkers,
    choose_front_end_workers,
    no_worker_error,
    stop_on_signals,
)
from interlock.cli.output import WorkerCount, note
from interlock.cli.runtime import open_cli_runtime, parse_mode_argument
from interlock.core.aio import cancel_and_wait
from interlock.core.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from interlock.wiring.agents import AgentRuntime
    from interlock.wiring.telegram import BotIdentity, TelegramApp

NOT_INSTALLED = "the Telegram library is not installed: pip install 'interlock-runtime[telegram]'"


async def telegram(
    *,
    open: str = "",  # noqa: A002 - it is the option's name
    worker: bool = True,
    workers: WorkerCount | None = None,
) -> int:
    """Run a Telegram bot that lets listed people chat with an agent, until Ctrl-C or SIGTERM.

    The token comes from TELEGRAM_BOT_TOKEN_FILE, the allowed people from TELEGRAM_ALLOWED_USERS.

    Parameters
    ----------
    open
        Modes that operators may switch to, besides those of SESSION_OPEN_MODES: chat, plan, coding.
    worker
        With --no-worker, leave tasks to other processes: interlock worker.
    workers
        Work in this many separate processes instead of in this one.
    """
    if find_spec("telegram") is None:
        raise BadUsage(NOT_INSTALLED)
    opened = [parse_mode_argument(name.strip()) for name in open.split(",") if name.strip()]
    async with open_cli_runtime(opened=opened, sandboxed=True, is_checked=True) as runtime:
        from interlock.policy.verdict import ModeSwitchMethod
        from interlock.wiring.agents import open_agent_runtime
        from interlock.wiring.telegram import open_telegram_app

        agent_runtime = open_agent_runtime(runtime, way=ModeSwitchMethod.telegram)
        try:
            agent_runtime.models.open(agent_runtime.models.usual)
            front = open_telegram_app(
                agent_runtime, announce=lambda name: _announce(agent_runtime, name), waits=_print_waiting
            )
            await _run(
                agent_runtime,
                front,
                choose_front_end_workers(agent_runtime, worker=worker, workers=workers),
            )
        finally:
            await agent_runtime.close()
    return ExitCode.ok


async def _run(agent_runtime: "AgentRuntime", front: "TelegramApp", workers: "FrontEndWorkers") -> None:
    stop = stop_on_signals(workers)
    if cancelled := await front.dismiss():
        counted = "1 task" if cancelled == 1 else f"{cancelled} tasks"
        note(f"cancelled {counted} of people or groups that are no longer allowed to use the bot")
    working = asyncio.create_task(workers.run())
    beside = _started(agent_runtime, front, workers)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({stopping, working, *beside}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Stop in this order: incoming messages, running tasks, then the messages about their ends.
        polling, *others = beside
        await cancel_and_wait(stopping, polling)
        workers.stop()
        await asyncio.wait({working})
        await front.flush()
        await front.close()
        await cancel_and_wait(*others)
        await agent_runtime.runtime.finish_housekeeping()
    for task in (working, *beside):
        if not task.cancelled():
            task.result()
    if not stop.is_set():
        raise no_worker_error()


def _started(
    agent_runtime: "AgentRuntime", front: "TelegramApp", workers: "FrontEndWorkers"
) -> list[asyncio.Task[None]]:
    """Start the background tasks. The one that polls for messages comes first."""
    parts: list[Callable[[], Coroutine[None, None, None]]] = [
        front.run,
        front.hub.run,
        *agent_runtime.runtime.housekeeping(),
        lambda: agent_runtime.runtime.bus.run(workers.has_room),
    ]
    return [asyncio.create_task(part()) for part in parts]


def _print_waiting(name: "BotIdentity") -> None:
    note(
        f"another `interlock telegram` on this store is connected as @{name.username}; this "
        "process waits and takes over when that one exits"
    )


def _announce(agent_runtime: "AgentRuntime", name: "BotIdentity") -> None:
    given, authority_inputs = (
        agent_runtime.runtime.settings.telegram,
        agent_runtime.runtime.authority_inputs,
    )
    modes = ", ".join(sorted(mode.value for mode in authority_inputs.open_modes))
    people = len(given.allowed_users)
    counted = "1 person" if people == 1 else f"{people} people"
    note(f"@{name.username} is listening for {counted}; open modes: {modes}. Press Ctrl-C to stop.")
    if not people:
        note(
            "TELEGRAM_ALLOWED_USERS is empty; send the bot a message, and it replies with your "
            "id to add there"
        )
