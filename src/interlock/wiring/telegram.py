"""The Telegram bot of an office. It loads a library that only the extra `telegram` brings."""

from collections.abc import Callable

from interlock.channels.telegram.bot import TelegramBot
from interlock.channels.telegram.front import Front
from interlock.channels.telegram.heard import TELLING
from interlock.channels.telegram.lease import BotLease
from interlock.channels.telegram.lock import BotLock
from interlock.channels.telegram.records import Records
from interlock.channels.telegram.services import Services, Undone
from interlock.channels.telegram.traffic import GROUP, PRIVATE, Pace
from interlock.channels.telegram.updates import BotName
from interlock.config.modes import ToolMode
from interlock.following.hub import Hub
from interlock.gates.authority import Authority
from interlock.infra.errors import ConfigurationError
from interlock.wiring.office import Office
from interlock.wiring.runtime import Runtime, local_person

__all__ = ["BotName", "Front", "open_front"]

NO_BOT = (
    "TELEGRAM_BOT_TOKEN is not set; create a bot with BotFather, write its token to a file and "
    "set TELEGRAM_BOT_TOKEN_FILE to its path (docs/telegram.md)"
)


def open_front(
    office: Office,
    *,
    private: Pace = PRIVATE,
    group: Pace = GROUP,
    announce: Callable[[BotName], None] = lambda _name: None,
    waits: Callable[[BotName], None] = lambda _name: None,
) -> Front:
    runtime, given = office.runtime, office.runtime.settings.telegram
    if given.bot_token is None:
        raise ConfigurationError(NO_BOT)
    token = given.bot_token.get_secret_value()
    # A token begins with its bot's id.
    bot_id = int(token.partition(":")[0])
    lease = BotLease(
        runtime.log, bot_id, seconds=runtime.settings.session.lease_seconds, lock=_lock(runtime, bot_id)
    )
    records = Records(runtime.database, runtime.log, runtime.redactor, lease)
    return Front(
        *(TelegramBot(token, given.base_url), records, _services(office), lease),
        private=private,
        group=group,
        announce=announce,
        waits=waits,
    )


def _lock(runtime: Runtime, bot_id: int) -> BotLock | None:
    """Beside an SQLite store: who uses one that machines share may be on any of them."""
    config = runtime.database.config
    if not config.is_sqlite:
        return None
    return BotLock(config.path.with_name(f"{config.path.name}.telegram-{bot_id}"))


def _services(office: Office) -> Services:
    runtime = office.runtime

    async def authority(session_id: str | None, who: str) -> Authority:
        if session_id is None:
            return await runtime.authority(ToolMode.chat_safe)
        mode = await runtime.sessions.get_mode(session_id)
        return (await office.prompts.prepare(session_id, mode, who=who)).authority

    async def undo(task_id: str, who: str) -> list[Undone]:
        opened = runtime.situation.capabilities.roots
        report = await runtime.undo.take_back(task_id, who=who, within=opened)
        return [Undone(str(each.now_at), each.action, each.reason) for each in report.outcomes]

    return Services(
        given=runtime.settings.telegram,
        operator=local_person(),
        database=runtime.database,
        log=runtime.log,
        redactor=runtime.redactor,
        hub=Hub(runtime.database, runtime.log, office.live, TELLING),
        sessions=runtime.sessions,
        mode_switch=runtime.mode_switch,
        open_modes=runtime.situation.open_modes,
        questions=runtime.questions,
        tasks=office.tasks,
        authority=authority,
        undo=undo,
    )
