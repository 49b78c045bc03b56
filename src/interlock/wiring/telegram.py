"""Builds the Telegram bot of an agent runtime. It imports a library of the extra `telegram`."""

from collections.abc import Callable

from interlock.channels.telegram.app import TelegramApp
from interlock.channels.telegram.bot_api import BotApiClient
from interlock.channels.telegram.bot_lease import BotLease
from interlock.channels.telegram.rate_limit import GROUP_CHAT_LIMIT, PRIVATE_CHAT_LIMIT, RateLimit
from interlock.channels.telegram.services import TelegramServices, UndoneChange
from interlock.channels.telegram.store import TelegramStore
from interlock.channels.telegram.updates import BotIdentity
from interlock.config.modes import ToolMode
from interlock.core.errors import ConfigurationError
from interlock.policy.authority import Authority
from interlock.wiring.agents import AgentRuntime
from interlock.wiring.runtime import local_actor

__all__ = ["BotIdentity", "TelegramApp", "open_telegram_app"]

NO_BOT = (
    "TELEGRAM_BOT_TOKEN is not set; create a bot with BotFather, write its token to a file and "
    "set TELEGRAM_BOT_TOKEN_FILE to its path (docs/telegram.md)"
)


def open_telegram_app(
    agent_runtime: AgentRuntime,
    *,
    private: RateLimit = PRIVATE_CHAT_LIMIT,
    group: RateLimit = GROUP_CHAT_LIMIT,
    announce: Callable[[BotIdentity], None] = lambda _name: None,
    waits: Callable[[BotIdentity], None] = lambda _name: None,
) -> TelegramApp:
    runtime, given = agent_runtime.runtime, agent_runtime.runtime.settings.telegram
    if given.bot_token is None:
        raise ConfigurationError(NO_BOT)
    token = given.bot_token.get_secret_value()
    # A token begins with its bot's id.
    bot_id = int(token.partition(":")[0])
    lease = BotLease(runtime.leases, bot_id)
    records = TelegramStore(runtime.database, runtime.log, runtime.redactor, lease)
    return TelegramApp(
        *(BotApiClient(token, given.base_url), records, _services(agent_runtime), lease),
        private=private,
        group=group,
        announce=announce,
        waits=waits,
    )


def _services(agent_runtime: AgentRuntime) -> TelegramServices:
    runtime = agent_runtime.runtime

    async def authority(session_id: str | None, who: str) -> Authority:
        if session_id is None:
            return await runtime.authority(ToolMode.chat_safe)
        mode = await runtime.sessions.get_mode(session_id)
        return (await agent_runtime.prompts.prepare(session_id, mode, who=who)).authority

    async def undo(task_id: str, who: str) -> list[UndoneChange]:
        opened = runtime.authority_inputs.capabilities.roots
        report = await runtime.undo.revert(task_id, who=who, within=opened)
        return [UndoneChange(str(each.now_at), each.action, each.reason) for each in report.outcomes]

    return TelegramServices(
        given=runtime.settings.telegram,
        operator=local_actor(),
        database=runtime.database,
        log=runtime.log,
        redactor=runtime.redactor,
        hub=agent_runtime.hub,
        sessions=runtime.sessions,
        mode_switch=runtime.mode_switch,
        open_modes=runtime.authority_inputs.open_modes,
        questions=runtime.questions,
        tasks=agent_runtime.tasks,
        authority=authority,
        undo=undo,
    )
