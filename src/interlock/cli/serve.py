"""`interlock serve`: the page, the sockets, and a worker that does what is asked there."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.conversing import Roots
from interlock.cli.exits import Exit
from interlock.cli.hands import Hands, hands_of, nobody_works, stop_on_signals
from interlock.cli.output import Workers, note, print_line
from interlock.cli.runtime import mode_argument, opened_runtime, root_arguments
from interlock.infra.errors import BadUsage

if TYPE_CHECKING:
    from interlock.config.gateway import GatewaySettings
    from interlock.config.modes import ToolMode
    from interlock.wiring.office import Office


async def serve(
    *,
    open: str = "",  # noqa: A002 - it is the option's name
    root: Roots = (),
    host: str | None = None,
    port: int | None = None,
    worker: bool = True,
    workers: Workers | None = None,
) -> int:
    """Serve the page and the socket, and work on what is asked there, until Ctrl-C or SIGTERM.

    It prints a link that logs one browser in. More links: interlock token link.

    Parameters
    ----------
    open
        Modes that people may switch to, besides those of SESSION_OPEN_MODES: chat, plan, coding.
    root
        A folder to work in, instead of those of TOOL_ALLOWED_ROOTS.
    host
        The address to listen on instead of GATEWAY_HOST.
    port
        The port to listen on instead of GATEWAY_PORT; 0 takes a free one.
    worker
        With --no-worker, tasks are left to other processes: interlock worker.
    workers
        Work in so many processes of their own instead of in this one.
    """
    opened = [mode_argument(name.strip()) for name in open.split(",") if name.strip()]
    _say_on_the_command_line(host, port, root_arguments(root))
    async with opened_runtime(opened=opened, sandboxed=True, is_checked=True) as runtime:
        from interlock.gates.verdict import SwitchWay
        from interlock.wiring.office import open_office

        office = open_office(runtime, way=SwitchWay.page)
        try:
            office.models.open(office.models.usual)
            await _serve(office, hands_of(office, worker=worker, workers=workers))
        finally:
            await office.close()
    return Exit.ok


def _say_on_the_command_line(host: str | None, port: int | None, roots: tuple[Path, ...] | None) -> None:
    """The same settings, with the same checks, whoever gives them, and for workers of its own too."""
    import os

    from interlock.config.environment import alias_of

    if host is not None:
        os.environ["GATEWAY_HOST"] = host
    if port is not None:
        os.environ["GATEWAY_PORT"] = str(port)
    if roots is not None:
        os.environ.pop(alias_of("TOOL_ALLOWED_ROOTS"), None)
        os.environ["TOOL_ALLOWED_ROOTS"] = _listed(roots)


def _listed(roots: tuple[Path, ...]) -> str:
    for root in roots:
        if "," in str(root):
            raise BadUsage(f"--root {root}: the name of a served folder cannot contain a comma")
    return ",".join(map(str, roots))


async def _serve(office: "Office", hands: Hands) -> None:
    from interlock.cli.token import link_base
    from interlock.wiring import local_person
    from interlock.wiring.serving import Address, listening_socket, open_gateway, open_server

    given = office.runtime.settings.gateway
    listening = listening_socket(given.host, given.port)
    port = listening.getsockname()[1]
    gateway = open_gateway(office, port=port)
    address = Address(given.host, port, given.tls_cert, given.tls_key)
    server = open_server(gateway, office.runtime, address)
    code = await gateway.credentials.issue_code(who=local_person())
    _announce(given, office.runtime.situation.open_modes, f"{link_base(given, port)}/#code={code}")
    stop = stop_on_signals(hands)
    working = asyncio.create_task(hands.run())
    beside = [*gateway.beside(), lambda: office.listen(hands.has_room)]
    if (retention := office.runtime.retention) is not None:
        beside.append(retention.run_hourly)
    try:
        # Without whoever works it would take messages that nobody answers.
        await server.run(listening, [*beside, lambda: asyncio.shield(working)], stop)
    finally:
        hands.stop()
        await asyncio.wait({working})
    if not working.cancelled():
        working.result()
    if not stop.is_set():
        raise nobody_works()


def _announce(given: "GatewaySettings", open_modes: "frozenset[ToolMode]", link: str) -> None:
    modes = ", ".join(sorted(mode.value for mode in open_modes))
    note(f"Interlock is listening on {given.host}; open modes: {modes}. Press Ctrl-C to stop.")
    note(
        "Open this link in a browser. It works once, within ten minutes. For another: interlock token link"
    )
    print_line(link)
    # Whoever reads it from a pipe waits for it.
    sys.stdout.flush()
