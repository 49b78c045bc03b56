"""`interlock serve`: the page, the WebSocket gateway, and a worker."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.command_line_session import RootOptions
from interlock.cli.exit_codes import ExitCode
from interlock.cli.front_end_workers import (
    FrontEndWorkers,
    choose_front_end_workers,
    no_worker_error,
    stop_on_signals,
)
from interlock.cli.output import WorkerCount, note, print_line
from interlock.cli.runtime import open_cli_runtime, parse_mode_argument, resolve_root_arguments
from interlock.core.errors import BadUsage

if TYPE_CHECKING:
    from interlock.config.gateway import GatewaySettings
    from interlock.config.modes import ToolMode
    from interlock.wiring.agents import AgentRuntime


async def serve(
    *,
    open: str = "",  # noqa: A002 - it is the option's name
    root: RootOptions = (),
    host: str | None = None,
    port: int | None = None,
    worker: bool = True,
    workers: WorkerCount | None = None,
) -> int:
    """Serve the page and the gateway, and work on tasks, until Ctrl-C or SIGTERM.

    Prints a link that logs in one browser. For more links: interlock token link.

    Parameters
    ----------
    open
        Modes that people may switch to, besides those of SESSION_OPEN_MODES: chat, plan, coding.
    root
        A directory to work in, instead of those of TOOL_ALLOWED_ROOTS.
    host
        The address to listen on instead of GATEWAY_HOST.
    port
        The port to listen on instead of GATEWAY_PORT; 0 takes a free one.
    worker
        With --no-worker, leave tasks to other processes: interlock worker.
    workers
        Work in this many separate processes instead of in this one.
    """
    opened = [parse_mode_argument(name.strip()) for name in open.split(",") if name.strip()]
    _say_on_the_command_line(host, port, resolve_root_arguments(root))
    async with open_cli_runtime(opened=opened, sandboxed=True, is_checked=True) as runtime:
        from interlock.policy.verdict import ModeSwitchMethod
        from interlock.wiring.agents import open_agent_runtime

        agent_runtime = open_agent_runtime(runtime, way=ModeSwitchMethod.page)
        try:
            agent_runtime.models.open(agent_runtime.models.usual)
            await _serve(
                agent_runtime, choose_front_end_workers(agent_runtime, worker=worker, workers=workers)
            )
        finally:
            await agent_runtime.close()
    return ExitCode.ok


def _say_on_the_command_line(host: str | None, port: int | None, roots: tuple[Path, ...] | None) -> None:
    """Put options into the environment: the settings check them, and worker processes inherit them."""
    import os

    from interlock.config.sources import spec_alias

    if host is not None:
        os.environ["GATEWAY_HOST"] = host
    if port is not None:
        os.environ["GATEWAY_PORT"] = str(port)
    if roots is not None:
        os.environ.pop(spec_alias("TOOL_ALLOWED_ROOTS"), None)
        os.environ["TOOL_ALLOWED_ROOTS"] = _listed(roots)


def _listed(roots: tuple[Path, ...]) -> str:
    for root in roots:
        if "," in str(root):
            raise BadUsage(f"--root {root}: the name of a served folder cannot contain a comma")
    return ",".join(map(str, roots))


async def _serve(agent_runtime: "AgentRuntime", workers: FrontEndWorkers) -> None:
    from interlock.cli.token import link_base
    from interlock.wiring import local_actor
    from interlock.wiring.gateway import ListenAddress, listening_socket, open_gateway, open_server

    runtime = agent_runtime.runtime
    given = runtime.settings.gateway
    listening = listening_socket(given.host, given.port)
    port = listening.getsockname()[1]
    gateway = open_gateway(agent_runtime, port=port)
    address = ListenAddress(given.host, port, given.tls_cert, given.tls_key)
    server = open_server(gateway, runtime, address)
    code = await gateway.credentials.issue_code(who=local_actor())
    _announce(given, runtime.authority_inputs.open_modes, f"{link_base(given, port)}/#code={code}")
    stop = stop_on_signals(workers)
    working = asyncio.create_task(workers.run())
    beside = [
        *gateway.beside(),
        *runtime.housekeeping(),
        lambda: runtime.bus.run(workers.has_room),
        lambda: asyncio.shield(working),
    ]
    try:
        # Without a running worker, the server would accept messages that are never answered.
        await server.run(listening, beside, stop)
    finally:
        workers.stop()
        await asyncio.wait({working})
        await runtime.finish_housekeeping()
    if not working.cancelled():
        working.result()
    if not stop.is_set():
        raise no_worker_error()


def _announce(given: "GatewaySettings", open_modes: "frozenset[ToolMode]", link: str) -> None:
    modes = ", ".join(sorted(mode.value for mode in open_modes))
    note(f"Interlock is listening on {given.host}; open modes: {modes}. Press Ctrl-C to stop.")
    note(
        "Open this link in a browser. It works once, within ten minutes. For another: interlock token link"
    )
    print_line(link)
    # A reader of a pipe waits for this line.
    sys.stdout.flush()
