"""Builds the gateway of an agent runtime, for the page and for scripts."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from interlock.agent.budget import PriceTable
from interlock.config.modes import ToolMode
from interlock.db.driver import DbConnection
from interlock.feed.follow import FeedHub
from interlock.gateway.app import Gateway, script_hashes
from interlock.gateway.auth import CredentialService
from interlock.gateway.connection import SocketLimits
from interlock.gateway.frame_encoding import frame_of_item
from interlock.gateway.guard import HostAndOriginPolicy, RequestGuard
from interlock.gateway.methods.base import listed_sessions
from interlock.gateway.server import GatewayServer, ListenAddress, listening_socket
from interlock.gateway.services import GatewayServices, ServerInfo
from interlock.gateway.session_watch import SessionWatch
from interlock.models.provider_factory import DEMO
from interlock.policy.policy_fields import ToolPolicy
from interlock.policy.verdict import ModeSwitchMethod
from interlock.runtime.bus import LogAppended
from interlock.sessions.manager import read_sessions_by_id
from interlock.sessions.runtime_settings import StoredSettings
from interlock.tools.registry import ToolRegistry
from interlock.wiring.agents import AgentRuntime
from interlock.wiring.authority_inputs import ceiling
from interlock.wiring.runtime import Runtime, store_verifier

__all__ = [
    "Gateway",
    "GatewayServer",
    "ListenAddress",
    "listening_socket",
    "open_gateway",
    "open_server",
]


def open_gateway(agent_runtime: AgentRuntime, *, port: int) -> Gateway:
    runtime, given = agent_runtime.runtime, agent_runtime.runtime.settings.gateway
    gateway = Gateway(
        _services(agent_runtime),
        CredentialService(runtime.database, runtime.log, runtime.redactor),
        # Cookies ignore ports: two Interlocks on one machine must not share one.
        cookie=f"interlock_{port}",
        # Behind a proxy that encrypts, the page's origin is https.
        secure_cookie=given.tls_cert is not None
        or any(origin.startswith("https://") for origin in given.allowed_origins),
        browser_days=given.browser_days,
        max_sockets=given.max_sockets,
        limits=SocketLimits(queue_bytes=given.queue_bytes, requests_per_second=given.requests_per_second),
    )
    name_of = _known_names(runtime.registry)

    def count(message: LogAppended) -> None:
        for event in message.events:
            gateway.metrics.count_event(event, name_of)

    runtime.bus.subscribe(count, LogAppended)
    return gateway


def open_server(gateway: Gateway, runtime: Runtime, address: ListenAddress) -> GatewayServer:
    given = runtime.settings.gateway
    doors = RequestGuard(
        gateway.app(), HostAndOriginPolicy.of(given, address.port, script_hashes=script_hashes())
    )
    return GatewayServer(
        gateway,
        doors,
        address,
        max_frame_bytes=given.max_frame_bytes,
        max_sockets=given.max_sockets,
    )


def _services(agent_runtime: AgentRuntime) -> GatewayServices:
    runtime = agent_runtime.runtime
    prices = PriceTable.of(runtime.settings.control.prices, free=(DEMO,))

    async def matrix(agent: ToolPolicy, settings: StoredSettings | None) -> dict[str, Any]:
        return await runtime.views.matrix(agent=agent, settings=settings.tools if settings else None)

    async def explain(
        tool: str, mode: ToolMode, args: str | None, agent: ToolPolicy, session_id: str
    ) -> dict[str, Any]:
        return await runtime.views.explain(
            tool, mode, args, agent=agent, session_id=session_id, way=ModeSwitchMethod.page
        )

    async def undo(task_id: str, undo_id: str | None, who: str) -> dict[str, Any]:
        opened = runtime.authority_inputs.capabilities.roots
        if undo_id is None:
            report = await runtime.undo.revert(task_id, who=who, within=opened)
        else:
            report = await runtime.undo.redo(task_id, undo_id, who=who, within=opened)
        return {
            "undo_id": report.undo_id,
            "restored": [outcome.now_at for outcome in report.outcomes if outcome.reason is None],
            "left": [
                {"path": outcome.now_at, "reason": outcome.reason}
                for outcome in report.outcomes
                if outcome.reason is not None
            ],
        }

    def read_sessions(connection: DbConnection, session_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        found = read_sessions_by_id(connection, session_ids)
        listed = listed_sessions(connection, runtime.sessions, found)
        return {each["id"]: each for each in runtime.redactor.value(listed)}

    return GatewayServices(
        about=_about(runtime),
        database=runtime.database,
        log=runtime.log,
        redactor=runtime.redactor,
        hub=FeedHub(runtime.database, runtime.bus, agent_runtime.live, frame_of_item),
        watch=SessionWatch(runtime.database, runtime.bus, read_sessions),
        sessions=runtime.sessions,
        mode_switch=runtime.mode_switch,
        stored_settings=runtime.stored_settings,
        questions=runtime.questions,
        tasks=agent_runtime.tasks,
        plans=agent_runtime.plans,
        runs=agent_runtime.runs,
        agents=agent_runtime.agents,
        models=agent_runtime.models,
        matrix=matrix,
        explain=explain,
        undo=undo,
        mcp=runtime.mcp_servers,
        cost_of=lambda model, tokens: prices.spent({model: tokens}).cost,
        verify=lambda: store_verifier(runtime.settings).verify(runtime.database),
    )


def _about(runtime: Runtime) -> ServerInfo:
    backend = runtime.sandbox.backend
    return ServerInfo(
        version=version("interlock-runtime"),
        open_modes=runtime.authority_inputs.open_modes,
        sandbox={
            "name": backend.name if backend is not None else "none",
            "confines": runtime.sandbox.is_confined,
        },
        roots=tuple(str(root) for root in runtime.authority_inputs.capabilities.roots),
        retention_days=runtime.settings.retention_days,
        ceiling=ceiling(runtime.settings),
    )


def _known_names(registry: ToolRegistry) -> Any:
    """A name that a model made up must not become a metric's label."""
    return lambda name: name if registry.canonical_name(name) == name else "unknown"
