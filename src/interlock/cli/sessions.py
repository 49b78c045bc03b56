"""`interlock sessions`: the conversations there are."""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from cyclopts import App

from interlock.cli.exits import Exit
from interlock.cli.output import (
    AsJson,
    Count,
    local_time,
    note,
    print_json,
    print_json_bytes,
    print_line,
    print_table,
    print_text,
)
from interlock.cli.runtime import mode_argument, opened_runtime

app = App(
    name="sessions",
    help="List, show, export, delete sessions; switch a mode.",
    help_format="plaintext",
)


@app.command(name="list")
async def list_sessions(*, archived: bool = False, limit: Count = 50, json: AsJson = False) -> int:
    """List the sessions, the most recently used first.

    Parameters
    ----------
    archived
        Also those that were archived.
    limit
        At most so many.
    """
    async with opened_runtime() as runtime:
        sessions = await runtime.sessions.list_sessions(include_archived=archived, limit=limit)
    if json:
        print_json([asdict(session) for session in sessions])
    elif not sessions:
        note("no sessions yet")
    else:
        rows = [[s.id, s.kind, s.stored_mode, local_time(s.updated_us), s.title] for s in sessions]
        print_table(["session", "kind", "mode", "last used", "title"], rows)
    return Exit.ok


@app.command
async def show(session: str, *, json: AsJson = False) -> int:
    """Show a session and what was said in it.

    Parameters
    ----------
    session
        The session's id, as `interlock sessions list` shows it.
    """
    async with opened_runtime() as runtime:
        found = await runtime.sessions.get(session)
        mode = await runtime.sessions.get_mode(session)
        messages = await runtime.sessions.transcript(session)
    if json:
        print_json({**asdict(found), "mode": mode.value, "messages": [asdict(m) for m in messages]})
        return Exit.ok
    print_line(f"session   {found.id}  ({found.kind})")
    print_line(f"title     {found.title or '(none)'}")
    stored = "" if mode == found.stored_mode else f"  (stored: {found.stored_mode}, not open here)"
    print_line(f"mode      {mode}{stored}")
    print_line(f"created   {local_time(found.created_us)} by {found.opened_by}")
    print_line(f"last used {local_time(found.updated_us)}, {found.last_seq} events")
    for message in messages:
        print_line()
        print_line(f"[{message.seq}] {message.role}  {local_time(message.time_us)}")
        print_text(message.content)
        for call in message.tool_calls or ():
            print_line(f"  → {call['name']} {call['arguments']}")
    return Exit.ok


@app.command
async def export(session: str, *, out: Path | None = None) -> int:
    """Print a session as JSON lines: first the session, then its messages, then its events.

    Parameters
    ----------
    session
        The session's id.
    out
        Write to this new file instead of stdout.
    """
    from interlock.session.export import export_lines

    def work(db: Any) -> int:
        lines = export_lines(db, session)
        # A session that is not there is told before a file is made for it.
        first = next(lines)
        return (
            _write_out(chain((first,), lines)) if out is None else _write_new(out, chain((first,), lines))
        )

    async with opened_runtime() as runtime:
        written = await runtime.database.read(work)
    if out is not None:
        note(f"wrote {written} lines to {out}")
    return Exit.ok


@app.command
async def delete(session: str, *, yes: bool = False) -> int:
    """Erase everything said in a session. The hashes stay, so the log still verifies.

    Parameters
    ----------
    session
        The session's id.
    yes
        Really do it; without this, it only says what would be erased.
    """
    from interlock.wiring import local_person

    async with opened_runtime() as runtime:
        found = await runtime.sessions.get(session)
        if not yes:
            note(f"this would erase the {found.last_seq} events of {found.id}; say --yes to do it")
            return Exit.usage
        await runtime.sessions.delete(session, who=local_person())
    note(f"erased {session}")
    return Exit.ok


@app.command
async def mode(session: str, mode: str | None = None, *, json: AsJson = False) -> int:
    """Show a session's mode, or switch it among the modes the operator opened.

    Parameters
    ----------
    session
        The session's id.
    mode
        The mode for its next task; without it, the present one is shown.
    """
    from interlock.wiring import local_person

    async with opened_runtime() as runtime:
        await runtime.sessions.get(session)
        if mode is not None:
            await runtime.mode_switch.switch(session, mode_argument(mode), who=local_person())
        present = await runtime.sessions.get_mode(session)
        open_modes = sorted(runtime.situation.open_modes)
    if json:
        print_json({"session_id": session, "mode": present.value, "open_modes": open_modes})
    else:
        print_line(present.value)
    return Exit.ok


def _write_out(lines: Iterable[bytes]) -> int:
    written = 0
    for line in lines:
        print_json_bytes(line)
        written += 1
    return written


def _write_new(path: Path, lines: Iterable[bytes]) -> int:
    import os

    from interlock.infra.errors import PersonError

    written = 0
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise PersonError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            for line in lines:
                file.write(line)
                written += 1
    except OSError as error:
        path.unlink(missing_ok=True)
        raise PersonError(f"{path} cannot be written: {error.strerror}") from None
    return written
