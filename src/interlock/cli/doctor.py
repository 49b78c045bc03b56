"""`interlock doctor`: looks at everything that can be wrong with an installation, and says so."""

import platform
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit
from interlock.cli.output import AsJson, print_json, print_table
from interlock.infra.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.config.settings import Settings

GOOD, WARNING, BAD = "ok", "warning", "failed"
_STYLE = {GOOD: "green", WARNING: "yellow", BAD: "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """`package` is what Debian calls the program that it is about."""

    what: str
    state: str
    detail: str
    package: str | None = None


def doctor(*, json: AsJson = False) -> int:
    """Check this installation and say what is wrong."""
    from interlock.config.settings import load_settings
    from interlock.infra.errors import InterlockError

    findings = [_python()]
    try:
        settings = load_settings()
    except InterlockError as error:
        findings.append(Finding("settings", BAD, str(error)))
    else:
        findings += _typos() or [Finding("settings", GOOD, "every variable is a known setting")]
        findings += _short_secrets(settings)
        findings += [*_denied_nothing(settings), *_tool_modes(settings)]
        findings += [*_own_program(settings), *_programs(settings)]
        findings += [*_sandbox(settings), _images(settings)]
        findings += _nats(settings)
        for check in (_state_folder, _database):
            findings.append(_tried(check, settings))
            if findings[-1].state == BAD:
                break
        else:
            findings += [
                _tried(check, settings) for check in (_disk, _log, _stored_settings, _policy, _mcp)
            ]
    if json:
        print_json([asdict(finding) for finding in findings])
    else:
        from rich.markup import escape

        rows = [[f.what, f"[{_STYLE[f.state]}]{f.state}[/]", escape(f.detail)] for f in findings]
        print_table(["check", "state", "detail"], rows, styles=True)
    return Exit.failed if any(finding.state == BAD for finding in findings) else Exit.ok


def _tried(check: "Callable[[Settings], Finding]", settings: "Settings") -> Finding:
    from interlock.infra.errors import InterlockError

    try:
        return check(settings)
    except InterlockError as error:
        return Finding(check.__name__.strip("_").replace("_", " "), BAD, " ".join(str(error).split()))


def _python() -> Finding:
    import sqlite3

    detail = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {sys.platform}"
    return Finding("python", GOOD, detail)


def _typos() -> list[Finding]:
    from interlock.config.describe import unknown_variables

    return [
        Finding(
            "settings", WARNING, f"{name} is not a setting" + (f"; did you mean {near}?" if near else "")
        )
        for name, near in unknown_variables().items()
    ]


def _denied_nothing(settings: "Settings") -> list[Finding]:
    """A rule that matches nothing must not look as if it did."""
    from interlock.config.environment import given_name
    from interlock.wiring import build_registry

    variable = given_name("TOOL_DENIED")
    known = {name for entry in build_registry() for name in (entry.tool.name, *entry.tool.aliases)}
    return [
        Finding("settings", WARNING, f"{variable} names '{name}', but there is no such tool")
        for name in sorted(settings.tool.denied - known)
    ]


def _tool_modes(settings: "Settings") -> list[Finding]:
    from interlock.infra.errors import ConfigurationError
    from interlock.wiring import build_registry, override_modes

    try:
        override_modes(build_registry(), settings.tool.mode_overrides)
    except ConfigurationError as error:
        return [Finding("settings", BAD, str(error))]
    return []


def _own_program(settings: "Settings") -> list[Finding]:
    """Whoever may write there decides what the next start of Interlock is."""
    from interlock.config.environment import given_name
    from interlock.config.folders import own_program_in, refuse_loading

    variable, roots = given_name("TOOL_ALLOWED_ROOTS"), settings.tool.allowed_roots or ()
    try:
        refuse_loading(roots)
    except ValueError as error:
        return [Finding("settings", BAD, str(error))]
    return [
        Finding(
            "settings",
            WARNING,
            f"{variable}: {root} contains Interlock's own program ({place}), so agents with write "
            "access could change it; install it elsewhere",
        )
        for root, place in own_program_in(roots)
    ]


def _programs(settings: "Settings") -> list[Finding]:
    """The programs that tools run. Without one, its tools cannot be used."""
    from interlock.wiring import programs

    findings = []
    for program, path, tools in programs(settings.tool.allowed_roots or ()):
        name = program.names[0]
        lost = f"{name} is missing, so {', '.join(tools)} cannot be used; {program.hint}"
        state, detail = (GOOD, f"found {name} at {path}") if path else (BAD, lost)
        findings.append(Finding("program", state, detail, package=program.package))
    return findings


def _sandbox(settings: "Settings") -> list[Finding]:
    """What confines commands, tried out now, and what it leaves open.

    Without a sandbox it is a failure where the shell could otherwise be used.
    """
    import asyncio

    from interlock.config.environment import given_name
    from interlock.gates.authority import AuthorityCache
    from interlock.wiring import build_registry, dead_denials, missing_needs, situation_of, tried_sandbox

    choice = asyncio.run(tried_sandbox(settings))
    here = situation_of(settings, settings.session.open_modes, settings.tool.allowed_roots, choice)
    lost = {each.need: each.tools for each in missing_needs(AuthorityCache(build_registry()), here)}
    if "sandbox" in lost:
        detail = f"{', '.join(lost['sandbox'])} cannot be used: {choice.reason}"
        findings = [Finding("sandbox", BAD, detail)]
    else:
        findings = [Finding("sandbox", GOOD if choice.is_confined else WARNING, choice.reason)]
    for report in choice.reports:
        findings += [Finding("sandbox", WARNING, f"{row.name}: {row.detail}") for row in report.failures]
        findings += [
            Finding("sandbox", GOOD, f"not enforced: {row.name} ({row.detail})") for row in report.open
        ]
    variable = given_name("TOOL_BASH_DENYLIST")
    findings += [
        Finding("settings", WARNING, f"{variable}: '{entry}' can never match: {why}")
        for entry, why in dead_denials(settings)
    ]
    return findings


def _images(settings: "Settings") -> Finding:
    """Whether images can be made, and where they would be asked for. Nothing is sent."""
    from interlock.config.addresses import origin_of
    from interlock.config.endpoints import image_endpoint

    endpoint = image_endpoint(settings)
    if isinstance(endpoint, str):
        is_begun = settings.image.model or settings.image.base_url or settings.image.api_key
        return Finding("images", WARNING if is_begun else GOOD, f"generate_image is disabled: {endpoint}")
    scheme, host, port = origin_of(endpoint.base_url) or ("", "", 0)
    key = "with a key" if endpoint.api_key else "without a key"
    return Finding("images", GOOD, f"{endpoint.model} at {scheme}://{host}:{port}, {key}; not tested")


def _nats(settings: "Settings") -> list[Finding]:
    """Whether what wakes workers on other machines can be reached; they work without it, only later."""
    import asyncio

    from interlock.wiring import tried_nats

    if settings.nats.url is None:
        return []
    try:
        wrong = asyncio.run(tried_nats(settings))
    except ImportError:
        wrong = "NATS needs an extra: pip install 'interlock-runtime[nats]'"
    if wrong:
        detail = f"NATS cannot be used: {wrong}; workers poll for tasks once a second instead"
        return [Finding("nats", WARNING, detail)]
    return [Finding("nats", GOOD, f"connected; the queue of {settings.nats.prefix} exists")]


def _short_secrets(settings: "Settings") -> list[Finding]:
    from interlock.config.describe import secrets_of
    from interlock.redaction.redactor import MIN_SECRET_LENGTH

    if any(len(secret) < MIN_SECRET_LENGTH for secret in secrets_of(settings)):
        detail = f"a secret is shorter than {MIN_SECRET_LENGTH} characters and cannot be redacted"
        return [Finding("secrets", WARNING, detail)]
    return []


def _state_folder(settings: "Settings") -> Finding:
    from interlock.store.database import prepare_folder
    from interlock.wiring import store_config

    config = store_config(settings)
    if not config.is_sqlite:
        return Finding("state folder", GOOD, str(settings.state_dir))
    prepare_folder(config.path)
    folder = config.path.parent
    if folder.stat().st_mode & 0o077:
        return Finding("state folder", WARNING, f"other users can read {folder}; run: chmod 700 {folder}")
    return Finding("state folder", GOOD, str(folder))


def _database(settings: "Settings") -> Finding:
    from interlock.store.database import SCHEMA_REVISION, open_database
    from interlock.store.driver import SqliteConnection
    from interlock.wiring import store_config

    database = open_database(store_config(settings))
    try:
        with database.reading() as connection:
            faults = connection.check_pages() if isinstance(connection, SqliteConnection) else []
    finally:
        database.close()
    if faults:
        return Finding("database", BAD, f"the file is damaged: {faults[0]}; restore a backup")
    return Finding("database", GOOD, f"{database.dialect}, schema {SCHEMA_REVISION}")


def _disk(settings: "Settings") -> Finding:
    from interlock.store.database import open_database
    from interlock.wiring import store_config

    database = open_database(store_config(settings))
    try:
        if database.reserve is None:
            return Finding("disk", GOOD, "not checked for a PostgreSQL server")
        shortage = database.reserve.shortage()
    finally:
        database.close()
    if shortage is not None:
        return Finding("disk", BAD, shortage)
    return Finding("disk", GOOD, "the store has free space and its reserve")


def _log(settings: "Settings") -> Finding:
    from interlock.events.verify import verify
    from interlock.store.database import open_database
    from interlock.wiring import store_config

    database = open_database(store_config(settings))
    try:
        with database.reading() as connection:
            report = verify(connection)
    finally:
        database.close()
    if report.ok:
        return Finding("log", GOOD, f"verified {report.events} events in {report.streams} streams")
    return Finding("log", BAD, str(report.faults[0]))


def _stored_settings(settings: "Settings") -> Finding:
    from interlock.session.settings_store import newest
    from interlock.store.database import open_database
    from interlock.wiring import store_config

    database = open_database(store_config(settings))
    try:
        with database.reading() as connection:
            version = newest(connection).version
    finally:
        database.close()
    return Finding("stored settings", GOOD, f"version {version}")


def _policy(settings: "Settings") -> Finding:
    from interlock.config.environment import given_name
    from interlock.config.modes import ToolMode

    opened = ", ".join(mode for mode in ToolMode if mode in settings.session.open_modes)
    roots = ", ".join(str(root) for root in settings.tool.allowed_roots or ()) or "none"
    if settings.tool.sandbox == "off":
        name = given_name("TOOL_SANDBOX")
        return Finding("policy", WARNING, f"{name}=off; open modes: {opened}; roots: {roots}")
    return Finding("policy", GOOD, f"open modes: {opened}; roots: {roots}")


def _mcp(settings: "Settings") -> Finding:
    """Which foreign servers there are, and what is to be done about them. None is started."""
    import asyncio

    from interlock.infra.logging import show_log
    from interlock.wiring import NO_SANDBOX, foreign, open_runtime

    async def look() -> list[dict[str, Any]]:
        show_log(settings.log_level)
        runtime = open_runtime(settings, sandbox=NO_SANDBOX)
        try:
            servers: list[dict[str, Any]] = (await foreign.list_servers(runtime))["servers"]
            return servers
        finally:
            await runtime.close()

    servers = asyncio.run(look())
    if not servers:
        return Finding("mcp", GOOD, "no MCP servers are configured")
    told, state = [], GOOD
    for server in servers:
        changed = server["tools"].get("changed", 0)
        trouble = server["unavailable"] or (f"{changed} of its tools changed" if changed else "")
        state = WARNING if trouble else state
        told.append(f"{server['id']}: {trouble or server['closed'] or 'usable'}")
    return Finding("mcp", state, "; ".join(told))
