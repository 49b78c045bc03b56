"""`interlock sessions`: lists, searches, exports, deletes and erases sessions."""

from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import (
    AlwaysJson,
    AsJson,
    Count,
    local_time,
    note,
    print_json,
    print_line,
    print_table,
    print_text,
)
from interlock.cli.runtime import open_cli_agent_runtime, open_cli_runtime, parse_mode_argument

if TYPE_CHECKING:
    from interlock.sessions.search import SessionMatch

app = App(
    name="sessions",
    help="List, find, show, export, delete and erase sessions; switch the mode.",
    help_format="plaintext",
)


@app.command(name="list")
async def list_sessions(
    *,
    group: Literal["chats", "commands", "all"] = "chats",
    archived: bool = False,
    limit: Count = 50,
    json: AsJson = False,
) -> int:
    """List the sessions, the most recently used first.

    Parameters
    ----------
    group
        The chats, the sessions of single commands (exec, tool call), or all.
    archived
        Include archived sessions.
    limit
        Maximum number of sessions.
    """
    from interlock.sessions.models import SessionListFilter

    async with open_cli_runtime() as runtime:
        sessions = await runtime.sessions.list_sessions(
            group=SessionListFilter(group), include_archived=archived, limit=limit
        )
    if json:
        print_json([asdict(session) for session in sessions])
    elif not sessions:
        note(
            "no sessions yet"
            if group == "all"
            else f"no {group} yet; use --group all to list every session"
        )
    else:
        rows = [[s.id, s.kind, s.stored_mode, local_time(s.updated_us), s.title] for s in sessions]
        print_table(["session", "kind", "mode", "last used", "title"], rows)
    return ExitCode.ok


@app.command
async def search(
    *words: Annotated[str, Parameter(required=True)], limit: Count = 20, json: AsJson = False
) -> int:
    """Search the titles and messages of sessions. Exits with 1 if nothing matches.

    Parameters
    ----------
    words
        Words that must all occur in one title or message; case is ignored.
    limit
        Maximum number of matches.
    """
    from interlock.core.errors import BadUsage
    from interlock.sessions.search import search_sessions

    query = " ".join(words).strip()
    if not query:
        raise BadUsage("give the words to search for")
    async with open_cli_runtime() as runtime:
        found = await runtime.database.read(lambda db: search_sessions(db, query, limit=limit))
    if json:
        print_json([asdict(match) for match in found])
    else:
        _print_matches(found)
        if len(found) == limit:
            note(f"showing the first {limit} matches; use --limit to see more")
    return ExitCode.ok if found else ExitCode.failed


def _print_matches(found: "list[SessionMatch]") -> None:
    if not found:
        note("no matches")
    shown = ""
    for match in found:
        session = match.session
        if session.id != shown:
            shown = session.id
            print_line(f"{session.id}  {local_time(session.updated_us)}  {session.title or '(no title)'}")
        if match.seq is not None:
            print_line(f"{match.seq:>6}  {match.snippet}")


@app.command
async def show(session: str, *, json: AsJson = False) -> int:
    """Show a session and its messages.

    Parameters
    ----------
    session
        The session's id, as `interlock sessions list --group all` shows it.
    """
    async with open_cli_runtime() as runtime:
        found = await runtime.sessions.get(session)
        mode = await runtime.sessions.get_mode(session)
        messages = await runtime.sessions.transcript(session)
    if json:
        print_json({**asdict(found), "mode": mode.value, "messages": [asdict(m) for m in messages]})
        return ExitCode.ok
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
    return ExitCode.ok


@app.command
async def export(session: str, *, out: Path | None = None, _json: AlwaysJson = False) -> int:
    """Print a session as JSON lines: the session, then its messages, then its events.

    Parameters
    ----------
    session
        The session's id.
    out
        Write to this new file instead of stdout.
    """
    from interlock.cli.export_output import open_export
    from interlock.sessions.export import export_session

    def work(db: Any) -> None:
        lines = export_session(db, session)
        # Report a missing session before creating the file.
        first = next(lines)
        with open_export(out) as write:
            write(chain((first,), lines))

    async with open_cli_runtime() as runtime:
        await runtime.database.read(work)
    return ExitCode.ok


@app.command
async def delete(session: str, *, yes: bool = False) -> int:
    """Hide a session and cancel its tasks. Nothing is erased; `sessions erase` does that.

    Parameters
    ----------
    session
        The session's id.
    yes
        Confirm; without this option, the command only shows what it would hide.
    """
    from interlock.wiring import local_actor

    async with open_cli_agent_runtime() as agent_runtime:
        found = await agent_runtime.runtime.sessions.get(session)
        if not yes:
            note(f"this would hide {found.id} and cancel its tasks; use --yes to confirm")
            return ExitCode.usage
        await agent_runtime.tasks.delete_session(session, who=local_actor())
    note(
        f"deleted {session}: it is hidden, and its log is kept (to erase it: interlock sessions "
        f"erase {session})"
    )
    return ExitCode.ok


@app.command
async def erase(session: str, *, yes: bool = False, wait: float = 30.0, json: AsJson = False) -> int:
    """Delete a session and erase its content: texts, arguments, results, saved files.

    The log keeps the proof of what was done: tools, modes, verdicts, actors, digests, times and hashes. The
    erasure is an event of the `system` stream. Backups and exports are not changed.

    Parameters
    ----------
    session
        The session's id; the session may already be deleted.
    yes
        Confirm; without this option, the command only shows what it would erase.
    wait
        Seconds to wait for running calls. If they do not end in time, nothing is erased.
    """
    from interlock.wiring import local_actor

    async with open_cli_agent_runtime() as agent_runtime:
        eraser, person = agent_runtime.runtime.eraser, local_actor()
        is_deleted = await eraser.is_deleted(session)
        if not yes:
            note(f"this would permanently erase the content of {session}; use --yes to confirm")
            return ExitCode.usage
        if not is_deleted:
            await agent_runtime.tasks.delete_session(session, who=person)
        told = await eraser.erase(session, who=person, wait_seconds=wait)
    if json:
        print_json({"session_id": session, "events": told.events, "messages": told.messages})
    else:
        note(f"erased the content of {told.events} events and {told.messages} messages of {session}")
    return ExitCode.ok


@app.command
async def mode(session: str, mode: str | None = None, *, json: AsJson = False) -> int:
    """Show a session's mode, or switch it to one of the open modes.

    Parameters
    ----------
    session
        The session's id.
    mode
        The mode for the next task. A stricter mode also applies to the next call of a running task.
        Without it, the command shows the current mode.
    """
    from interlock.wiring import local_actor

    async with open_cli_runtime() as runtime:
        await runtime.sessions.get(session)
        if mode is not None:
            await runtime.mode_switch.switch(session, parse_mode_argument(mode), who=local_actor())
        present = await runtime.sessions.get_mode(session)
        open_modes = sorted(runtime.authority_inputs.open_modes)
    if json:
        print_json({"session_id": session, "mode": present.value, "open_modes": open_modes})
    else:
        print_line(present.value)
    return ExitCode.ok
