"""`interlock events`: shows, follows, exports, verifies, signs and anchors the log."""

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import (
    AlwaysJson,
    AsJson,
    Count,
    local_time,
    note,
    print_json,
    print_json_line,
    print_line,
    print_text,
)
from interlock.cli.runtime import open_cli_runtime

if TYPE_CHECKING:
    from interlock.log.process_grouping import EventsByProcess
    from interlock.log.read import LogCursor
    from interlock.log.tree import EventNode
    from interlock.log.verify.event_log import VerificationReport

app = App(name="events", help="Read and verify the event log.", help_format="plaintext")

POLL_SECONDS = 0.25
# docs/events.md and docs/security.md say why.
NOT_COMPARED = (
    "not compared: kept files, stored output, sealed arguments, when credentials were used, definitions of "
    "MCP tools, titles erased for their age"
)
# Kinds decided by an authority, whose digest is shown.
_JUDGED = {"tool_call.started", "tool_call.denied"}


@app.command
async def tree(
    session: str,
    *,
    task: str | None = None,
    processes: Annotated[bool, Parameter(negative=())] = False,
    json: AsJson = False,
) -> int:
    """Show the events of a session (or `system`) as a tree of causes.

    Parameters
    ----------
    session
        The session's id, or `system` for events that belong to no session.
    task
        Show only the events of this task.
    processes
        Group the events by process: supervisor, worker, agent, turn, tool call.
    """
    from interlock.core.errors import SessionNotFound
    from interlock.log.process_grouping import group_by_process, read_process_events
    from interlock.log.read import iter_stream
    from interlock.log.tree import build_tree

    async with open_cli_runtime() as runtime:
        stored = await runtime.database.read(lambda db: list(iter_stream(db, session)))
        known = await runtime.database.read(read_process_events) if processes else []
    if not stored:
        raise SessionNotFound(f"the log has no events of {session}")
    chosen = [event for event in stored if task is None or _is_of(event.header.task, task)]
    if processes:
        _print_lineage(group_by_process(chosen, known), session, json=json)
    elif json:
        print_json([root.as_json() for root in build_tree(chosen)])
    else:
        for root in build_tree(chosen):
            _print_tree(root, session)
    return ExitCode.ok


def _print_lineage(lineage: "EventsByProcess", session: str, *, json: bool) -> None:
    if json:
        print_json(lineage.as_json())
        return
    for root in (*lineage.outside, *lineage.processes):
        _print_tree(root, session)
    for process in lineage.unrecorded:
        print_line(f"{'':>6}  {process.worker}  (a terminal, or a process that is not in the log)")
        for child in process.children:
            _print_tree(child, session, depth=1)


def _print_tree(root: "EventNode", stream: str, depth: int = 0) -> None:
    """Print the tree. Only events of `stream` get numbers: others would be mistaken for its own."""
    for below, event in root.walk(depth):
        number = event.header.seq if event.header.stream == stream else ""
        print_line(f"{number:>6}  {'  ' * below}{_summary(event)}")


@app.command
async def tail(
    session: str | None = None,
    *,
    after: str | None = None,
    limit: Count = 50,
    follow: bool = False,
    json: AsJson = False,
) -> int:
    """Print events as they were written, of one session or of all.

    Parameters
    ----------
    session
        The session's id, or `system`. Default: all sessions.
    after
        Start after this position: a sequence number within a session, else a cursor (shown with --json).
    limit
        Maximum number of events, the newest ones unless --after is given.
    follow
        Keep printing new events as they arrive.
    """
    from interlock.log.read import read_all, read_stream

    async with open_cli_runtime() as runtime:
        reader: Any
        if session is None:
            place: Any = (
                _parse_after(None, after) if after else await runtime.database.read(_back_all(limit))
            )

            def reader(db: Any) -> Any:
                return read_all(db, after=place)
        else:
            if after is not None:
                place = _parse_after(session, after).position
            else:
                place = await runtime.database.read(_back_one(session, limit))

            def reader(db: Any) -> Any:
                return read_stream(db, session, after_seq=place)

        while True:
            events = await runtime.database.read(reader)
            for event in events:
                _print_event(event, all_streams=session is None, json=json)
                place = event.cursor if session is None else event.header.seq
            if not events:
                if not follow:
                    return ExitCode.ok
                # A reader of a pipe waits for these lines.
                sys.stdout.flush()
                await asyncio.sleep(POLL_SECONDS)


@app.command
async def export(
    session: str | None = None,
    *,
    after: str | None = None,
    out: Path | None = None,
    _json: AlwaysJson = False,
) -> int:
    """Print the current events with their hashes as JSON lines, of one session or of all.

    Parameters
    ----------
    session
        The session's id, or `system`. Default: all sessions.
    after
        Start after this position: a sequence number within a session, else a cursor.
    out
        Write to this new file instead of stdout.
    """
    from interlock.cli.export_output import open_export
    from interlock.log.export import EventExportCursor, begin_event_export, read_event_export_page

    def begin(db: Any) -> EventExportCursor:
        if session is not None:
            _back_one(session, 0)(db)
        return begin_event_export(db, session, after=_parse_after(session, after))

    place: EventExportCursor | None
    async with open_cli_runtime() as runtime:
        # Report a missing session before creating the file.
        place = await runtime.database.read(begin)
        with open_export(out) as write:
            # One short read per page: a slow reader blocks no other process.
            while place is not None:
                at = place
                lines, place = await runtime.database.read(lambda db: read_event_export_page(db, at))  # noqa: B023
                write(lines)
    return ExitCode.ok


@app.command
async def verify(*, session: str | None = None, anchor: str | None = None, json: AsJson = False) -> int:
    """Verify the whole log and name the first event that is corrupt, missing or truncated.

    Parameters
    ----------
    session
        Verify only this session.
    anchor
        Also compare the log with a line that `events anchor` printed earlier, or with a file of anchors.
        The files of EVENT_ANCHORS, and journald, are read anyway.
    """
    from interlock.log.checkpoint import Anchor
    from interlock.wiring.runtime import store_verifier

    files = [Path(anchor).resolve()] if anchor and os.path.isfile(anchor) else []  # noqa: PTH113, ASYNC240 - also for a long line
    anchors = [Anchor.parse(anchor)] if anchor and not files else []
    async with open_cli_runtime() as runtime:
        report = await store_verifier(runtime.settings).verify(
            runtime.database, anchors=anchors, files=files, only=session
        )
    coverage = report.coverage
    if json:
        print_json(
            {
                "ok": report.ok,
                "streams": report.streams,
                "events": report.events,
                "messages": report.messages,
                "erased": report.erased,
                "checkpoints": report.checkpoints,
                "signed": coverage.signed,
                "key": coverage.key,
                "anchors": report.anchors,
                "after_checkpoint": coverage.unchecked_events,
                "after_anchor": coverage.unanchored_events,
                "notes": report.notes,
                "faults": [
                    {"stream": f.stream, "seq": f.seq, "what": f.what, "detail": f.detail}
                    for f in report.faults
                ],
            }
        )
    else:
        for fault in report.faults:
            print_line(str(fault))
        print_line(
            f"{'verified' if report.ok else 'NOT VERIFIED'}: {report.events} events in {report.streams} "
            f"streams, {report.messages} messages, {report.checkpoints} checkpoints, "
            f"{report.erased} with erased content"
        )
        for each in report.notes:
            note(each)
        _print_coverage(report)
    return ExitCode.ok if report.ok else ExitCode.failed


def _print_coverage(report: "VerificationReport") -> None:
    """What is not covered: a right log can still be one that was rewritten as a whole."""
    coverage = report.coverage
    after = f"{coverage.unchecked_events} events came after the last one"
    if coverage.signed:
        note(f"signed by {coverage.key}: {coverage.signed} checkpoints; {after}")
    elif report.checkpoints:
        note(f"no checkpoint is signed; {after}")
    else:
        note("there is no checkpoint, so a person who writes to the database can rewrite all of it")
    if coverage.anchor_seq:
        note(f"{coverage.unanchored_events} events came after the newest anchor and are not covered by it")
    else:
        note(
            "to detect a log that was replaced as a whole, keep a line of `interlock events "
            "anchor` elsewhere"
        )
    note(NOT_COMPARED)


@app.command
async def given(session: str, number: int, *, json: AsJson = False) -> int:
    """Show the original arguments of a call where the log masks them, including secrets.

    Parameters
    ----------
    session
        The session's id.
    number
        The sequence number of the call's `tool_call.started` event in that session.
    """
    from interlock.core.errors import UserError
    from interlock.log.kinds import ToolCallStarted
    from interlock.log.read import read_stream

    async with open_cli_runtime() as runtime:
        stored = await runtime.database.read(
            lambda db: read_stream(db, session, after_seq=number - 1, limit=1)
        )
        event = stored[0].event() if stored and stored[0].header.seq == number else None
        if not isinstance(event, ToolCallStarted):
            raise UserError(f"event #{number} of {session} does not start a tool call")
        if not event.arguments_seal:
            raise UserError("none of its arguments are masked; `events tree` shows all of them")
        arguments = runtime.sealed.opened(session, event.arguments_seal)
    if arguments is None:
        raise UserError(
            "the arguments are no longer kept on this machine, or were changed; `events tree "
            "--processes` shows where the call ran"
        )
    if json:
        print_json({"arguments": arguments, "arguments_seal": event.arguments_seal})
    else:
        for name, value in arguments.items():
            print_text(f"{name}: {value}")
        note(f"matches the log: sha256 {event.arguments_seal}")
    return ExitCode.ok


@app.command
async def anchor(
    *, accept_restored: Annotated[bool, Parameter(negative=())] = False, json: AsJson = False
) -> int:
    """Record a signed checkpoint over all streams, send its anchor to EVENT_ANCHORS, and print it.

    Parameters
    ----------
    accept_restored
        You restored an older backup, so the log lacks the last checkpoint that this machine signed: sign
        all the same, and record who accepted it.
    """
    from interlock.log.checkpoint import write_checkpoint
    from interlock.wiring import local_actor

    accepted_by = local_actor() if accept_restored else ""
    async with open_cli_runtime() as runtime:
        line = str(
            await write_checkpoint(runtime.log, runtime.signing_keys, restore_accepted_by=accepted_by)
        )
        await runtime.anchors.finish()
    if json:
        print_json({"anchor": line})
    else:
        print_line(line)
        note(
            "store this line where this machine cannot change it; to check it: events verify --anchor LINE"
        )
    return ExitCode.ok


@app.command
async def rotate_key(
    *, to: Path | None = None, lost: Annotated[bool, Parameter(negative=())] = False, json: AsJson = False
) -> int:
    """Replace the key that signs checkpoints. The old key signs the new one, and is then removed.

    Parameters
    ----------
    to
        A file with the new Ed25519 private key in PEM, where EVENT_SIGNING_KEY_FILE names the present one.
        Default: the key of EVENT_SIGNING_KEY_FILE, else a new one in the state directory.
    lost
        The old key is lost and signs nothing: `events verify` reports the change until the new public key
        is in EVENT_TRUSTED_KEYS.
    """
    from interlock.log.checkpoint import LastCheckpointMissing, signing_key_of, write_checkpoint
    from interlock.log.checkpoint import rotate_key as replace_key
    from interlock.log.signing import SigningKeyMissing
    from interlock.wiring import local_actor

    async with open_cli_runtime() as runtime:
        keys = runtime.signing_keys
        new = keys.next(await runtime.database.read(signing_key_of), to, is_lost=lost)
        old = await replace_key(runtime.log, keys, new, who=local_actor(), is_lost=lost)
        keys.remove(old)
        try:
            await write_checkpoint(runtime.log, keys)
        except SigningKeyMissing:
            note(f"EVENT_SIGNING_KEY_FILE must name {to} before the next checkpoint can be written")
        except LastCheckpointMissing as error:
            note(str(error))
    if json:
        print_json({"key": new.public, "replaced": old})
    else:
        print_line(new.public)
        note(f"this key signs checkpoints from now on; it replaces {old}")
        if lost:
            note("where the log is verified, add it to EVENT_TRUSTED_KEYS, after the keys before it")
    return ExitCode.ok


@app.command
async def sweep(*, json: AsJson = False) -> int:
    """Erase content older than EVENT_RETENTION_DAYS, as `serve` does automatically."""
    from dataclasses import asdict

    from interlock.core.errors import UserError

    async with open_cli_runtime() as runtime:
        if runtime.retention is None:
            raise UserError("EVENT_RETENTION_DAYS is not set, so nothing was erased")
        swept = await runtime.retention.sweep()
    if json:
        print_json(asdict(swept))
    else:
        print_line(
            f"erased the content of {swept.events} events and {swept.messages} messages in "
            f"{swept.streams} streams, older than {local_time(swept.before_us)}"
        )
    return ExitCode.ok


def _parse_after(session: str | None, after: str | None) -> "LogCursor":
    """Parse --after: a sequence number within a session, a cursor over all sessions."""
    from interlock.core.errors import BadUsage
    from interlock.core.text import safe_excerpt
    from interlock.log.read import LOG_START, LogCursor, parse_event_number

    if after is None:
        return LOG_START
    if session is None:
        return LogCursor.parse(after)
    number = parse_event_number(after)
    if number is None:
        excerpt = safe_excerpt(after, 100)
        raise BadUsage(f"--after {excerpt}: within a session, it must be the sequence number of an event")
    return LogCursor(0, number)


def _back_all(limit: int) -> Any:
    from interlock.log.read import LOG_START, LogCursor, newest_cursors

    def read(db: Any) -> LogCursor:
        cursors = newest_cursors(db, limit + 1)
        return cursors[-1] if len(cursors) > limit else LOG_START

    return read


def _back_one(session: str, limit: int) -> Any:
    from interlock.core.errors import SessionNotFound
    from interlock.log.verify.event_log import HEAD

    def read(db: Any) -> int:
        rows = db.query(HEAD, (session,))
        if not rows:
            raise SessionNotFound(f"the log has no events of {session}")
        return max(0, int(rows[0][0]) - limit)

    return read


def _print_event(event: Any, *, all_streams: bool, json: bool) -> None:
    from interlock.log.tree import event_json

    if json:
        print_json_line(event_json(event))
        return
    stream = f"{event.header.stream:<20} " if all_streams else ""
    print_line(f"{stream}{event.header.seq:>6}  {_summary(event)}")


def _summary(event: Any) -> str:
    """One line for an event: its time, kind and relevant fields."""
    from interlock.log.tree import payload_of

    when = local_time(event.header.time_us)
    told = payload_of(event)
    hidden = {"authority_digest", "output_hash", "call_id", "redacted", "heads"}
    hidden |= {"content", "calls", "reasoning", "result"}
    facts = " ".join(
        f"{name}={_short(value)}"
        for name, value in told.items()
        if name not in hidden and value not in (None, "", [], {})
    )
    if event.header.kind in _JUDGED:
        # Enough digits for `interlock policy show`.
        facts += f" authority={told.get('authority_digest', '')[:12]}"
    if event.is_erased:
        facts += " (content erased)"
    return f"{when}  {event.header.kind}  {facts}"


def _short(value: Any) -> str:
    import orjson

    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= 100 else f"{text[:99]}…"


def _is_of(given: str | None, task: str) -> bool:
    """Whether an id is of this task or of one delegated from it, whose id is `<task>.<n>`."""
    return given is not None and (given == task or given.startswith(f"{task}."))
