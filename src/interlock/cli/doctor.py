"""`interlock doctor`: checks an installation and prints what is wrong with it."""

import platform
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.config.settings import Settings

GOOD, WARNING, BAD = "ok", "warning", "failed"
_STYLE = {GOOD: "green", WARNING: "yellow", BAD: "red"}


@dataclass(frozen=True, slots=True)
class DoctorCheckResult:
    """The result of one check. `package` is the Debian package of the program checked."""

    what: str
    state: str
    detail: str
    package: str | None = None


def doctor(*, json: AsJson = False) -> int:
    """Check this installation and print the problems found."""
    from interlock.config.settings import load_settings
    from interlock.core.errors import InterlockError

    findings = [_python()]
    try:
        settings = load_settings()
    except InterlockError as error:
        findings.append(DoctorCheckResult("settings", BAD, str(error)))
    else:
        findings += _typos() or [DoctorCheckResult("settings", GOOD, "every variable is a known setting")]
        findings += _short_secrets(settings)
        findings += [*_denied_nothing(settings), *_tool_modes(settings)]
        findings += [*_own_program(settings), *_programs(settings)]
        rules = [] if settings.tool.command_rules is None else [_tried(_command_rules, settings)]
        # With wrong rules no authority can be compiled.
        are_wrong = any(finding.state == BAD for finding in rules)
        findings += [*rules, *([] if are_wrong else _sandbox(settings)), _images(settings)]
        findings += _nats(settings)
        for check in (_state_folder, _database):
            findings.append(_tried(check, settings))
            if findings[-1].state == BAD:
                break
        else:
            findings += [
                _tried(check, settings)
                for check in (_disk, _log, _checkpoints, _stored_settings, _policy, _mcp)
            ]
    if json:
        print_json([asdict(finding) for finding in findings])
    else:
        from rich.markup import escape

        rows = [[f.what, f"[{_STYLE[f.state]}]{f.state}[/]", escape(f.detail)] for f in findings]
        print_table(["check", "state", "detail"], rows, styles=True)
    return ExitCode.failed if any(finding.state == BAD for finding in findings) else ExitCode.ok


def _tried(check: "Callable[[Settings], DoctorCheckResult]", settings: "Settings") -> DoctorCheckResult:
    from interlock.core.errors import InterlockError

    try:
        return check(settings)
    except InterlockError as error:
        return DoctorCheckResult(
            check.__name__.strip("_").replace("_", " "), BAD, " ".join(str(error).split())
        )


def _python() -> DoctorCheckResult:
    import sqlite3

    detail = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {sys.platform}"
    return DoctorCheckResult("python", GOOD, detail)


def _typos() -> list[DoctorCheckResult]:
    from interlock.config.settings_report import unknown_variables

    return [
        DoctorCheckResult(
            "settings", WARNING, f"{name} is not a setting" + (f"; did you mean {near}?" if near else "")
        )
        for name, near in unknown_variables().items()
    ]


def _denied_nothing(settings: "Settings") -> list[DoctorCheckResult]:
    """Report deny rules that match no tool: they protect nothing."""
    from interlock.config.sources import given_variable_name
    from interlock.policy.policy_fields import unknown_tools
    from interlock.wiring import build_registry

    variable = given_variable_name("TOOL_DENIED")
    known = {name for entry in build_registry() for name in (entry.tool.name, *entry.tool.aliases)}
    return [
        DoctorCheckResult("settings", WARNING, f"{variable} names '{name}', but there is no such tool")
        for name in unknown_tools(settings.tool.denied, known)
    ]


def _tool_modes(settings: "Settings") -> list[DoctorCheckResult]:
    from interlock.core.errors import ConfigurationError
    from interlock.wiring import build_registry, override_modes

    try:
        override_modes(build_registry(), settings.tool.mode_overrides)
    except ConfigurationError as error:
        return [DoctorCheckResult("settings", BAD, str(error))]
    return []


def _own_program(settings: "Settings") -> list[DoctorCheckResult]:
    """Report roots that contain Interlock's own code: an agent could change what runs at the next start."""
    from interlock.config.directory_checks import reject_writable_code_paths, roots_with_own_program
    from interlock.config.sources import given_variable_name

    variable, roots = given_variable_name("TOOL_ALLOWED_ROOTS"), settings.tool.allowed_roots or ()
    try:
        reject_writable_code_paths(roots)
    except ValueError as error:
        return [DoctorCheckResult("settings", BAD, str(error))]
    return [
        DoctorCheckResult(
            "settings",
            WARNING,
            f"{variable}: {root} contains Interlock's own program ({place}), so agents with write "
            "access could change it; install it elsewhere",
        )
        for root, place in roots_with_own_program(roots)
    ]


def _programs(settings: "Settings") -> list[DoctorCheckResult]:
    """Check the programs that tools run. Tools whose program is missing cannot be used."""
    from interlock.wiring import programs

    findings = []
    for program, path, tools in programs(settings.tool.allowed_roots or ()):
        name = program.names[0]
        lost = f"{name} is missing, so {', '.join(tools)} cannot be used; {program.hint}"
        state, detail = (GOOD, f"found {name} at {path}") if path else (BAD, lost)
        findings.append(DoctorCheckResult("program", state, detail, package=program.package))
    return findings


def _sandbox(settings: "Settings") -> list[DoctorCheckResult]:
    """Probe the sandbox and report what it does not restrict.

    A missing sandbox is a failure only where the shell tools would otherwise be usable.
    """
    import asyncio

    from interlock.config.sources import given_variable_name
    from interlock.policy.authority import AuthorityCache
    from interlock.wiring import (
        build_authority_inputs,
        build_registry,
        missing_requirements,
        probe_sandbox,
        unmatchable_denials,
    )

    choice = asyncio.run(probe_sandbox(settings))
    here = build_authority_inputs(
        settings, settings.session.open_modes, settings.tool.allowed_roots, choice
    )
    lost = {each.need: each.tools for each in missing_requirements(AuthorityCache(build_registry()), here)}
    if "sandbox" in lost:
        detail = f"{', '.join(lost['sandbox'])} cannot be used: {choice.reason}"
        findings = [DoctorCheckResult("sandbox", BAD, detail)]
    else:
        findings = [DoctorCheckResult("sandbox", GOOD if choice.is_confined else WARNING, choice.reason)]
    for report in choice.reports:
        findings += [
            DoctorCheckResult("sandbox", WARNING, f"{row.name}: {row.detail}") for row in report.failures
        ]
        findings += [
            DoctorCheckResult("sandbox", GOOD, f"not enforced: {row.name} ({row.detail})")
            for row in report.open
        ]
    variable = given_variable_name("TOOL_BASH_DENYLIST")
    findings += [
        DoctorCheckResult("settings", WARNING, f"{variable}: '{entry}' can never match: {why}")
        for entry, why in unmatchable_denials(settings)
    ]
    return findings


def _command_rules(settings: "Settings") -> DoctorCheckResult:
    """Whether the operator's rules about commands can be loaded."""
    from interlock.commands.rules import load_rules
    from interlock.wiring import read_command_rules

    count = sum(len(load_rules(text, name)) for name, text in read_command_rules(settings.tool))
    return DoctorCheckResult("command rules", GOOD, f"{count} rules in {settings.tool.command_rules}")


def _images(settings: "Settings") -> DoctorCheckResult:
    """Whether images can be generated, and at which endpoint. Sends nothing."""
    from interlock.config.image import image_endpoint
    from interlock.config.url_checks import url_origin

    endpoint = image_endpoint(settings.image, settings.openai)
    if isinstance(endpoint, str):
        is_begun = settings.image.model or settings.image.base_url or settings.image.api_key
        return DoctorCheckResult(
            "images", WARNING if is_begun else GOOD, f"generate_image is disabled: {endpoint}"
        )
    scheme, host, port = url_origin(endpoint.base_url) or ("", "", 0)
    key = "with a key" if endpoint.api_key else "without a key"
    return DoctorCheckResult(
        "images", GOOD, f"{endpoint.model} at {scheme}://{host}:{port}, {key}; not tested"
    )


def _nats(settings: "Settings") -> list[DoctorCheckResult]:
    """Whether NATS is reachable. Workers on other machines run without it, but start later."""
    import asyncio

    from interlock.wiring import check_nats

    if settings.nats.url is None:
        return []
    try:
        wrong = asyncio.run(check_nats(settings))
    except ImportError:
        wrong = "NATS needs an extra: pip install 'interlock-runtime[nats]'"
    if wrong:
        detail = f"NATS cannot be used: {wrong}; workers poll for tasks once a second instead"
        return [DoctorCheckResult("nats", WARNING, detail)]
    return [DoctorCheckResult("nats", GOOD, f"connected; the queue of {settings.nats.prefix} exists")]


def _short_secrets(settings: "Settings") -> list[DoctorCheckResult]:
    from interlock.config.settings_report import secrets_of
    from interlock.redaction.redactor import MIN_SECRET_LENGTH

    if any(len(secret) < MIN_SECRET_LENGTH for secret in secrets_of(settings)):
        detail = f"a secret is shorter than {MIN_SECRET_LENGTH} characters and cannot be redacted"
        return [DoctorCheckResult("secrets", WARNING, detail)]
    return []


def _state_folder(settings: "Settings") -> DoctorCheckResult:
    from interlock.db.database import prepare_state_directory
    from interlock.wiring import store_config

    config = store_config(settings)
    if not config.is_sqlite:
        return DoctorCheckResult("state folder", GOOD, str(settings.state_dir))
    prepare_state_directory(config.path)
    folder = config.path.parent
    if folder.stat().st_mode & 0o077:
        return DoctorCheckResult(
            "state folder", WARNING, f"other users can read {folder}; run: chmod 700 {folder}"
        )
    return DoctorCheckResult("state folder", GOOD, str(folder))


def _database(settings: "Settings") -> DoctorCheckResult:
    from interlock.db.database import SCHEMA_REVISION, open_database
    from interlock.db.driver import SqliteConnection
    from interlock.wiring import store_config

    database = open_database(store_config(settings))
    try:
        with database.reading() as connection:
            faults = connection.check_pages() if isinstance(connection, SqliteConnection) else []
    finally:
        database.close()
    if faults:
        return DoctorCheckResult("database", BAD, f"the file is damaged: {faults[0]}; restore a backup")
    return DoctorCheckResult("database", GOOD, f"{database.dialect}, schema {SCHEMA_REVISION}")


def _disk(settings: "Settings") -> DoctorCheckResult:
    from interlock.db.database import open_database
    from interlock.wiring import store_config

    database = open_database(store_config(settings))
    try:
        if database.reserve is None:
            return DoctorCheckResult("disk", GOOD, "not checked for a PostgreSQL server")
        shortage = database.reserve.shortage()
    finally:
        database.close()
    if shortage is not None:
        return DoctorCheckResult("disk", BAD, shortage)
    return DoctorCheckResult("disk", GOOD, "the store has free space and its reserve")


def _log(settings: "Settings") -> DoctorCheckResult:
    import asyncio

    from interlock.db.database import open_database
    from interlock.wiring import store_config
    from interlock.wiring.runtime import store_verifier

    database = open_database(store_config(settings))
    try:
        report = asyncio.run(store_verifier(settings).verify(database))
    finally:
        database.close()
    if not report.ok:
        return DoctorCheckResult("log", BAD, str(report.faults[0]))
    coverage = report.coverage
    detail = (
        f"verified {report.events} events in {report.streams} streams; {coverage.signed} checkpoints are "
        f"signed, {coverage.unchecked_events} events came after the newest checkpoint"
    )
    return DoctorCheckResult("log", WARNING if report.notes else GOOD, "; ".join([detail, *report.notes]))


def _checkpoints(settings: "Settings") -> DoctorCheckResult:
    """When the newest checkpoint was written, and which sinks have its anchor."""
    from interlock.db.database import open_database
    from interlock.wiring import store_config
    from interlock.wiring.runtime import store_verifier

    database = open_database(store_config(settings))
    try:
        with database.reading() as connection:
            told, is_late = store_verifier(settings).checkpoint_status(connection)
    finally:
        database.close()
    return DoctorCheckResult("checkpoints", WARNING if is_late else GOOD, told)


def _stored_settings(settings: "Settings") -> DoctorCheckResult:
    from interlock.db.database import open_database
    from interlock.sessions.runtime_settings import read_newest_settings
    from interlock.wiring import store_config

    database = open_database(store_config(settings))
    try:
        with database.reading() as connection:
            version = read_newest_settings(connection).version
    finally:
        database.close()
    return DoctorCheckResult("stored settings", GOOD, f"version {version}")


def _policy(settings: "Settings") -> DoctorCheckResult:
    from interlock.config.modes import ToolMode
    from interlock.config.sources import given_variable_name

    opened = ", ".join(mode for mode in ToolMode if mode in settings.session.open_modes)
    roots = ", ".join(str(root) for root in settings.tool.allowed_roots or ()) or "none"
    if settings.tool.sandbox == "off":
        name = given_variable_name("TOOL_SANDBOX")
        return DoctorCheckResult("policy", WARNING, f"{name}=off; open modes: {opened}; roots: {roots}")
    return DoctorCheckResult("policy", GOOD, f"open modes: {opened}; roots: {roots}")


def _mcp(settings: "Settings") -> DoctorCheckResult:
    """List the MCP servers and the steps they need. Starts none of them."""
    import asyncio

    from interlock.core.logging import log_to_stderr
    from interlock.wiring import NO_SANDBOX, open_runtime

    async def look() -> list[dict[str, Any]]:
        log_to_stderr(settings.log_level)
        runtime = open_runtime(settings, sandbox=NO_SANDBOX)
        try:
            servers: list[dict[str, Any]] = (await runtime.mcp_servers.servers())["servers"]
            return servers
        finally:
            await runtime.close()

    servers = asyncio.run(look())
    if not servers:
        return DoctorCheckResult("mcp", GOOD, "no MCP servers are configured")
    told, state = [], GOOD
    for server in servers:
        changed = server["tools"].get("changed", 0)
        trouble = server["unavailable"] or (f"{changed} of its tools changed" if changed else "")
        state = WARNING if trouble else state
        told.append(f"{server['id']}: {trouble or server['closed'] or 'usable'}")
    return DoctorCheckResult("mcp", state, "; ".join(told))
