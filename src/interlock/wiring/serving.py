"""The gateway of an office: what the page and scripts reach over sockets."""

from importlib.metadata import version
from typing import Any

from interlock.agent.budget import PriceTable
from interlock.config.modes import ToolMode
from interlock.following.hub import Hub, Telling
from interlock.gates.policy import ToolPolicy
from interlock.gates.verdict import SwitchWay
from interlock.gateway.app import Gateway, script_hashes
from interlock.gateway.connection import SocketLimits
from interlock.gateway.doors import DoorPolicy, Doors
from interlock.gateway.frames import frames_of, live_frame
from interlock.gateway.services import About, Class, ForeignTools, Services
from interlock.gateway.serving import Address, Server, listening_socket
from interlock.models.choose import DEMO
from interlock.models.provider import Usage
from interlock.session.settings_store import StoredSettings
from interlock.tools.registry import ToolRegistry
from interlock.wiring import foreign, views
from interlock.wiring.access import open_credentials
from interlock.wiring.office import Office
from interlock.wiring.runtime import Runtime
from interlock.wiring.situation import ceiling

__all__ = [
    "Address",
    "Gateway",
    "Server",
    "listening_socket",
    "open_gateway",
    "open_server",
]


def open_gateway(office: Office, *, port: int) -> Gateway:
    runtime, given = office.runtime, office.runtime.settings.gateway
    gateway = Gateway(
        _services(office),
        open_credentials(runtime),
        # Cookies know no ports: two Interlocks on one machine must not take each other's.
        cookie=f"interlock_{port}",
        # Behind a proxy that encrypts, the page's address says so.
        secure_cookie=given.tls_cert is not None
        or any(origin.startswith("https://") for origin in given.allowed_origins),
        browser_days=given.browser_days,
        max_sockets=given.max_sockets,
        limits=SocketLimits(queue_bytes=given.queue_bytes, requests_per_second=given.requests_per_second),
    )
    name_of = _known_names(runtime.registry)
    office.live.hear(lambda event: gateway.metrics.told(event, name_of))
    return gateway


def open_server(gateway: Gateway, runtime: Runtime, address: Address) -> Server:
    given = runtime.settings.gateway
    doors = Doors(gateway.app(), DoorPolicy.of(given, address.port, script_hashes=script_hashes()))
    return Server(
        gateway,
        doors,
        address,
        max_frame_bytes=given.max_frame_bytes,
        max_sockets=given.max_sockets,
    )


def _services(office: Office) -> Services:
    runtime = office.runtime
    prices = PriceTable.of(runtime.settings.control.prices, free=(DEMO,))

    async def matrix(agent: ToolPolicy, settings: StoredSettings | None) -> dict[str, Any]:
        return await views.matrix(runtime, agent=agent, settings=settings)

    async def explain(
        tool: str, mode: ToolMode, args: str | None, agent: ToolPolicy, session_id: str
    ) -> dict[str, Any]:
        return await views.explain(
            runtime, tool, mode, args, agent=agent, session_id=session_id, way=SwitchWay.page
        )

    async def undo(task_id: str, undo_id: str | None, who: str) -> dict[str, Any]:
        opened = runtime.situation.capabilities.roots
        if undo_id is None:
            report = await runtime.undo.take_back(task_id, who=who, within=opened)
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

    return Services(
        about=_about(runtime),
        database=runtime.database,
        log=runtime.log,
        redactor=runtime.redactor,
        hub=Hub(runtime.database, runtime.log, office.live, Telling(frames_of, live_frame)),
        sessions=runtime.sessions,
        mode_switch=runtime.mode_switch,
        stored_settings=runtime.stored_settings,
        questions=runtime.questions,
        tasks=office.tasks,
        plans=office.plans,
        runs=office.runs,
        agents=office.agents,
        models=office.models,
        matrix=matrix,
        explain=explain,
        undo=undo,
        mcp=_foreign_tools(runtime),
        cost_of=lambda model, given, taken: prices.spent({model: Usage(given, taken)}).cost,
    )


def _foreign_tools(runtime: Runtime) -> ForeignTools:
    async def allow(server: str, tool: str, given: Class, who: str) -> dict[str, Any]:
        wish = foreign.ClassWish(effect=given.effect, modes=given.modes, group=given.group, hash=given.hash)
        return await foreign.allow(runtime, server, tool, wish, who=who, is_operator=False)

    async def remove(server: str, tool: str | None, who: str) -> dict[str, Any]:
        return await foreign.remove(runtime, server, tool, who=who)

    return ForeignTools(
        list=lambda: foreign.list_servers(runtime),
        inspect=lambda server: foreign.inspect(runtime, server, is_operator=False),
        allow=allow,
        remove=remove,
    )


def _about(runtime: Runtime) -> About:
    backend = runtime.sandbox.backend
    return About(
        version=version("interlock-runtime"),
        open_modes=runtime.situation.open_modes,
        sandbox={
            "name": backend.name if backend is not None else "none",
            "confines": runtime.sandbox.is_confined,
        },
        roots=tuple(str(root) for root in runtime.situation.capabilities.roots),
        retention_days=runtime.settings.retention_days,
        ceiling=ceiling(runtime.settings),
    )


def _known_names(registry: ToolRegistry) -> Any:
    """What a model calls a tool must not become the name of a figure."""
    return lambda name: name if registry.canonical_name(name) == name else "unknown"
