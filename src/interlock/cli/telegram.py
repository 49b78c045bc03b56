"""`interlock telegram`: a bot through which listed people talk with an agent, and a worker for it."""

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit
from interlock.cli.hands import Hands, hands_of, nobody_works, stop_on_signals
from interlock.cli.output import Workers, note
from interlock.cli.runtime import mode_argument, opened_runtime
from interlock.infra.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from interlock.wiring.office import Office
    from interlock.wiring.telegram import BotName, Front

NOT_INSTALLED = "the Telegram library is not installed: pip install 'interlock-runtime[telegram]'"


async def telegram(
    *,
    open: str = "",  # noqa: A002 - it is the option's name
    worker: bool = True,
    workers: Workers | None = None,
) -> int:
    """Let listed people talk with an agent in Telegram, until Ctrl-C or SIGTERM.

    The token comes from TELEGRAM_BOT_TOKEN_FILE, and who may write from TELEGRAM_ALLOWED_USERS.

    Parameters
    ----------
    open
        Modes that operators may switch to, besides those of SESSION_OPEN_MODES: chat, plan, coding.
    worker
        With --no-worker, tasks are left to other processes: interlock worker.
    workers
        Work in so many processes of their own instead of in this one.
    """
    if find_spec("telegram") is None:
        raise BadUsage(NOT_INSTALLED)
    opened = [mode_argument(name.strip()) for name in open.split(",") if name.strip()]
    async with opened_runtime(opened=opened, sandboxed=True, is_checked=True) as runtime:
        from interlock.gates.verdict import SwitchWay
        from interlock.wiring.office import open_office
        from interlock.wiring.telegram import open_front

        office = open_office(runtime, way=SwitchWay.telegram)
        try:
            office.models.open(office.models.usual)
            front = open_front(office, announce=lambda name: _announce(office, name), waits=_tell_waiting)
            await _run(office, front, hands_of(office, worker=worker, workers=workers))
        finally:
            await office.close()
    return Exit.ok


async def _run(office: "Office", front: "Front", hands: "Hands") -> None:
    stop = stop_on_signals(hands)
    if cancelled := await front.dismiss():
        counted = "1 task" if cancelled == 1 else f"{cancelled} tasks"
        note(f"cancelled {counted} of people or groups that are no longer allowed to use the bot")
    working = asyncio.create_task(hands.run())
    beside = _started(office, front, hands)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({stopping, working, *beside}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # First nothing more comes in, then what runs ends, then it is told.
        polling, *others = beside
        await _ended(stopping, polling)
        hands.stop()
        await asyncio.wait({working})
        await front.flush()
        await front.close()
        await _ended(*others)
    for task in (working, *beside):
        if not task.cancelled():
            task.result()
    if not stop.is_set():
        raise nobody_works()


def _started(office: "Office", front: "Front", hands: "Hands") -> list[asyncio.Task[None]]:
    """The one that takes messages in comes first."""
    parts: list[Callable[[], Coroutine[None, None, None]]] = [
        front.run,
        front.hub.run,
        lambda: office.listen(hands.has_room),
    ]
    if (retention := office.runtime.retention) is not None:
        parts.append(retention.run_hourly)
    return [asyncio.create_task(part()) for part in parts]


async def _ended(*tasks: "asyncio.Task[None] | asyncio.Task[bool]") -> None:
    for task in tasks:
        task.cancel()
        await asyncio.wait({task})


def _tell_waiting(name: "BotName") -> None:
    note(
        f"another `interlock telegram` on this store is connected as @{name.username}; this "
        "process waits and takes over when that one exits"
    )


def _announce(office: "Office", name: "BotName") -> None:
    given, situation = office.runtime.settings.telegram, office.runtime.situation
    modes = ", ".join(sorted(mode.value for mode in situation.open_modes))
    people = len(given.allowed_users)
    counted = "1 person" if people == 1 else f"{people} people"
    note(f"@{name.username} is listening for {counted}; open modes: {modes}. Press Ctrl-C to stop.")
    if not people:
        note(
            "TELEGRAM_ALLOWED_USERS is empty; send the bot a message, and it replies with your "
            "id to add there"
        )
