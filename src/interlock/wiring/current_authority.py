"""Compiles the present Authority, and checks it for every call until its intent is written.

A turn reads the store once. A later change is detected by the statement that writes a call's intent, which
carries the `WritePrecondition` below; only then is the store read again.
"""

from dataclasses import dataclass, replace
from typing import Any

from interlock.config.modes import ToolMode, looser_than, stricter
from interlock.core.errors import PreconditionFailed
from interlock.db.database import Database
from interlock.log.stream_appender import WritePrecondition
from interlock.policy.authority import Authority, AuthorityCache, compile_authority
from interlock.policy.authority_inputs import NO_SWITCHING, AuthorityInputs, ModeSwitching
from interlock.policy.policy_fields import NO_RESTRICTION, ToolPolicy, meet, merge_tool_policies
from interlock.sessions.runtime_settings import SettingsStore, SettingsVersion
from interlock.tools.mcp.service import McpService
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import ToolContext

CANCELLED = "cancelled"

# A task that has begun has a mode of its own, which a switch of the session's mode can only make stricter.
_PRESENT_MODE = f"""
coalesce(
    (SELECT CASE WHEN cancel_requested_us IS NULL THEN mode ELSE '{CANCELLED}' END
        FROM tasks WHERE {{task}}),
    (SELECT mode FROM sessions WHERE id = ?))
"""  # noqa: S608 - a constant
_SETTINGS_VERSION = "coalesce((SELECT max(version) FROM settings_versions), 0)"
_MCP_VERSION = "coalesce((SELECT max(version) FROM mcp_changes), 0)"

# What an Authority follows from in the store. Read before every turn, so in one statement. A session has
# one running task at most.
LOOK = f"""
SELECT {_PRESENT_MODE.format(task="session_id = ? AND status = 'running'")}, {_MCP_VERSION},
    s.version, s.document
FROM (SELECT max(version) AS newest FROM settings_versions) AS n
LEFT JOIN settings_versions s ON s.version = n.newest
"""  # noqa: S608
UNCHANGED = f"""
{_PRESENT_MODE.format(task="id = ?")} IN ({", ".join("?" for _ in ToolMode)})
AND {_SETTINGS_VERSION} = ? AND {_MCP_VERSION} = ?
"""

MAX_COMPILED = 256


@dataclass(frozen=True, slots=True)
class _Look:
    """The result of one read. `mode` is None if no session was given."""

    mode: str | None
    stored: SettingsVersion
    mcp_version: int


@dataclass(frozen=True, slots=True)
class _Compiled:
    """Keeps the policies of its key alive, so that their ids are not reused."""

    stored: SettingsVersion
    registry_version: int
    agent: ToolPolicy
    node: ToolPolicy
    authority: Authority


class CurrentAuthority:
    def __init__(
        self,
        database: Database,
        stored_settings: SettingsStore,
        mcp: McpService,
        registry: ToolRegistry,
        cache: AuthorityCache,
        authority_inputs: AuthorityInputs,
    ) -> None:
        self._database = database
        self._stored_settings = stored_settings
        self._mcp = mcp
        self._registry = registry
        self._cache = cache
        self._authority_inputs = authority_inputs
        # The newest state that this process knows; its registry has the tools of `mcp_version`.
        self._newest: _Look | None = None
        # Earlier Authorities, each with what it was compiled from: a turn mostly has the last one's.
        self._compiled: dict[tuple[Any, ...], _Compiled] = {}

    async def __call__(
        self,
        mode: ToolMode,
        *,
        session_id: str = "",
        agent: ToolPolicy = NO_RESTRICTION,
        node: ToolPolicy = NO_RESTRICTION,
        open_modes: frozenset[ToolMode] | None = None,
        someone_can_answer: bool = True,
        offered: frozenset[str] = frozenset(),
        switching: ModeSwitching = NO_SWITCHING,
        settings: ToolPolicy | None = None,
    ) -> Authority:
        """The Authority in that mode now, under the newest stored settings.

        With `settings`, a preview as if these were the stored ones.

        With a `session_id`, in the stricter of that mode and the one of the session's running task.
        `offered` are the capabilities that only this task has; `switching` is how its person can switch the
        mode.
        """
        look = await self._look(session_id, session_id)
        mode = _tightened(mode, look)
        stored, version = look.stored, self._registry.version
        asked = (mode, id(agent), id(node), open_modes, someone_can_answer, offered, switching)
        known = self._compiled.get(asked) if settings is None else None
        if known is not None and known.stored is stored and known.registry_version == version:
            return known.authority
        here = self._authority_inputs.capabilities.offering(offered)
        if not someone_can_answer:
            here = here.without("person", "no person is available to answer")
        authority_inputs = replace(
            self._authority_inputs,
            mode=mode,
            open_modes=self._authority_inputs.open_modes if open_modes is None else open_modes,
            settings=settings or stored.settings.tools,
            agent=agent,
            node=node,
            capabilities=here,
            switching=switching,
        )
        if settings is not None:
            # It takes no place in the cache from Authorities that judge calls.
            return compile_authority(self._registry, authority_inputs)
        authority = self._cache.get(authority_inputs)
        if len(self._compiled) >= MAX_COMPILED:
            self._compiled.clear()
        self._compiled[asked] = _Compiled(stored, version, agent, node, authority)
        return authority

    def condition(self, authority: Authority, context: ToolContext) -> WritePrecondition:
        newest = self._newest
        if newest is None or not _is_same(
            authority.authority_inputs.settings, newest.stored.settings.tools
        ):
            raise PreconditionFailed("the stored settings have changed since the turn started")
        followed = authority.mode if context.follows_session else ToolMode.chat_safe
        # An equally strict mode may have other tools: then the call is judged in both.
        modes = [mode.value for mode in (followed, *looser_than(followed))]
        # The same number of parameters for every mode, so that the calls of all sessions share a statement.
        modes += [modes[0]] * (len(ToolMode) - len(modes))
        present = (_task_of(context), context.session_id, *modes)
        return WritePrecondition(UNCHANGED, (*present, newest.stored.version, newest.mcp_version))

    async def narrowed(self, authority: Authority, context: ToolContext) -> Authority | None:
        at_work_in = context.session_id if _task_of(context) else ""
        look = await self._look(at_work_in, context.session_id if context.follows_session else "")
        if look.mode == CANCELLED:
            return None
        before = authority.authority_inputs
        authority_inputs = replace(
            before,
            mode=_tightened(authority.mode, look),
            settings=look.stored.settings.tools,
            # Where the change loosened something, the turn does not profit from it.
            node=merge_tool_policies(before.node, authority.policy),
        )
        return self._cache.get(authority_inputs)

    async def _look(self, at_work_in: str, session_id: str) -> _Look:
        """The mode is that of the task running in `at_work_in`, else that of `session_id`."""
        rows = await self._database.fetch(LOOK, (at_work_in, session_id))
        mode, mcp_version, *settings = rows[0]
        stored = self._stored_settings.of([tuple(settings)] if settings[0] is not None else [])
        servers = _allowed_servers(self._authority_inputs, stored.settings.tools)
        await self._mcp.refresh(servers, newest=mcp_version)
        self._newest = look = _Look(mode, stored, mcp_version)
        return look


def _task_of(context: ToolContext) -> str:
    """A delegated task belongs to the task that delegated it: `t_1.2` to `t_1`."""
    return (context.scope.task or "").partition(".")[0]


def _is_same(policy: ToolPolicy, other: ToolPolicy) -> bool:
    """Mostly one object; equal ones where settings were changed and changed back."""
    return policy is other or policy == other


def _tightened(mode: ToolMode, look: _Look) -> ToolMode:
    if look.mode is None or look.mode == CANCELLED:
        return mode
    present = ToolMode(look.mode) if look.mode in ToolMode.__members__ else ToolMode.chat_safe
    return stricter(mode, present)


def _allowed_servers(authority_inputs: AuthorityInputs, stored: ToolPolicy) -> frozenset[str] | None:
    """The servers that any agent could use; None if the system lists none, so that agents' own lists apply.

    Other servers are stopped.
    """
    # Called before every turn, so only this part of the policies is merged.
    merged = meet(authority_inputs.environment.mcp, stored.mcp)
    return frozenset() if merged.enabled is False else merged.allowed_servers
