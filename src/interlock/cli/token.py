"""`interlock token`: credentials for access over the network."""

from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter, validators

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, local_time, note, print_json, print_line, print_table
from interlock.cli.runtime import open_cli_agent_runtime, open_cli_runtime
from interlock.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.config.gateway import GatewaySettings
    from interlock.gateway.auth import CredentialService

app = App(
    name="token", help="Create, list and revoke tokens; create a login link.", help_format="plaintext"
)

Port = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=65535))]


@app.command
async def add(name: str, *, json: AsJson = False) -> int:
    """Create a token for a script and print it. It is shown only once.

    Parameters
    ----------
    name
        The name shown in the log: letters, digits, dots, dashes, underscores.
    """
    from interlock.wiring import local_actor

    async with _opened_credentials() as (credentials, _):
        made = await credentials.add_token(name, who=local_actor())
    if json:
        print_json(asdict(made))
    else:
        print_line(made.secret)
    note(f"created {made.id} for {made.name}; save the token, it is not shown again")
    note("send it as  Authorization: Bearer TOKEN")
    return ExitCode.ok


@app.command(name="list")
async def list_tokens(*, json: AsJson = False) -> int:
    """List the credentials: tokens, browser logins, and unused login links."""
    async with _opened_credentials() as (credentials, _):
        found = await credentials.list()
    if json:
        print_json([asdict(one) for one in found])
    elif not found:
        note("no credentials; to create one: interlock token add NAME or interlock token link")
    else:
        rows = [
            [
                one.id,
                one.kind.value,
                one.name,
                local_time(one.created_us),
                *map(_when, (one.used_us, one.expires_us)),
            ]
            for one in found
        ]
        print_table(["id", "kind", "who", "made", "last used", "ends"], rows)
    return ExitCode.ok


@app.command
async def revoke(token: str, *, json: AsJson = False) -> int:
    """Revoke a token, a browser login or a link, and cancel the tasks and runs that it started.

    Its open connections are closed within two seconds.

    Parameters
    ----------
    token
        The id that the list shows, or a token's name.
    """
    from interlock.gateway.auth import CredentialService
    from interlock.wiring import local_actor

    async with open_cli_agent_runtime() as agent_runtime:
        runtime = agent_runtime.runtime
        credentials = CredentialService(runtime.database, runtime.log, runtime.redactor)
        revoked = await credentials.revoke(token, agent_runtime.runs, who=local_actor())
    one, ended = revoked.credential, revoked.ended
    if json:
        print_json(
            {
                "id": one.id,
                "kind": one.kind.value,
                "name": one.name,
                "cancelled_tasks": ended.tasks,
                "stopped_runs": ended.runs,
            }
        )
        return ExitCode.ok
    print_line(f"revoked   {one.id}  ({one.kind.value}, {one.name})")
    print_line(f"cancelled {ended.tasks} {'task' if ended.tasks == 1 else 'tasks'} that it started")
    if ended.runs:
        print_line(f"stopped   {ended.runs} {'run' if ended.runs == 1 else 'runs'} of workflows")
    return ExitCode.ok


@app.command
async def link(*, port: Port | None = None, json: AsJson = False) -> int:
    """Print a link that logs in one browser as the current user. It works once, within ten minutes.

    Parameters
    ----------
    port
        The port that the server printed, if it differs from GATEWAY_PORT.
    """
    from interlock.wiring import local_actor

    async with _opened_credentials() as (credentials, gateway):
        base = link_base(gateway, port or gateway.port)
        address = f"{base}/#code={await credentials.issue_code(who=local_actor())}"
    if json:
        print_json({"link": address})
    else:
        print_line(address)
    note("the link works once, within ten minutes; interlock serve must be running")
    return ExitCode.ok


def link_base(gateway: "GatewaySettings", port: int) -> str:
    """The URL under which a local browser reaches the server, without a path."""
    from interlock.gateway.guard import WILDCARD_ADDRESSES

    if gateway.host in WILDCARD_ADDRESSES and gateway.allowed_hosts:
        # Keep the name as the operator wrote it: another port would be another origin. A proxy may use
        # another scheme.
        public = gateway.allowed_hosts[0]
        named = [
            origin for origin in gateway.allowed_origins if origin.lower().endswith(f"//{public.lower()}")
        ]
        return named[0] if named else f"{gateway.scheme}://{public}"
    if not port:
        raise UserError(
            "GATEWAY_PORT is 0 (any free port); use --port with the port that the server printed"
        )
    host = "127.0.0.1" if gateway.host in WILDCARD_ADDRESSES else gateway.host
    return f"{gateway.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


@asynccontextmanager
async def _opened_credentials() -> "AsyncIterator[tuple[CredentialService, GatewaySettings]]":
    from interlock.gateway.auth import CredentialService

    async with open_cli_runtime() as runtime:
        yield CredentialService(runtime.database, runtime.log, runtime.redactor), runtime.settings.gateway


def _when(time_us: int | None) -> str:
    return "never" if time_us is None else local_time(time_us)
