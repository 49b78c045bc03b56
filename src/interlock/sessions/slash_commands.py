"""Slash commands: one table for the page, the terminal and chats.

Each surface runs them in its own way. A message that looks like a command is never sent to a model.
"""

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from interlock.core.errors import BadUsage
from interlock.log.event import IS_MILESTONE

if TYPE_CHECKING:
    from interlock.db.driver import DbConnection

LAST_DENIAL = f"""
SELECT facts, content FROM events WHERE stream = ? AND kind = 'tool_call.denied' AND {IS_MILESTONE}
    AND content IS NOT NULL ORDER BY seq DESC LIMIT 1
"""  # noqa: S608 - a constant
# One word behind the slash. /etc/hosts does not match, so a message that begins with a path stays a
# message.
_WRITTEN = re.compile(r"/(\w*)(?:\s+(.*))?", re.DOTALL)


class Surface(StrEnum):
    page = "page"
    terminal = "terminal"
    telegram = "telegram"


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """`takes` describes its argument, as help shows it; empty if it has none."""

    name: str
    about: str
    takes: str = ""
    places: frozenset[Surface] = frozenset(Surface)


_HERE = frozenset({Surface.page, Surface.terminal})

SLASH_COMMANDS = (
    SlashCommand("help", "Show available commands"),
    SlashCommand("mode", "Show the mode and the open modes, or switch the mode", "[MODE]"),
    SlashCommand("tools", "Show which tools this mode allows"),
    SlashCommand("why", "Explain the last denied call: the rule and what to do"),
    SlashCommand("model", "Show the model, or choose another configured model", "[NAME]", _HERE),
    SlashCommand("history", "Show the messages of this session", places=_HERE),
    SlashCommand("compact", "Summarise older messages for the model with the next message"),
    SlashCommand("build", "Build the newest approved plan in coding mode", places=_HERE),
    SlashCommand("undo", "Undo the last file changes; repeat to undo earlier ones"),
    SlashCommand("steer", "Give a message to the running task at its next turn", "TEXT"),
    SlashCommand("cancel", "Cancel unfinished tasks", places=frozenset({Surface.page, Surface.telegram})),
    SlashCommand("new", "Start a new conversation"),
    SlashCommand("quit", "Exit and keep the session (also Ctrl-D)", places=frozenset({Surface.terminal})),
)


@dataclass(frozen=True, slots=True)
class ParsedSlashCommand:
    name: str
    rest: str


def slash_commands_for(place: Surface) -> dict[str, SlashCommand]:
    return {command.name: command for command in SLASH_COMMANDS if place in command.places}


def parse_slash_command(words: str, place: Surface) -> ParsedSlashCommand | None:
    """None for a plain message. Raises `BadUsage` for an unknown command."""
    found = _WRITTEN.fullmatch(words.strip())
    if found is None:
        return None
    known, name, rest = slash_commands_for(place), found[1].lower(), (found[2] or "").strip()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean /{near[0]}? " if near else ""
        raise BadUsage(f"there is no command /{name}; {meant}type /help for a list")
    if rest and not known[name].takes:
        raise BadUsage(f"/{name} takes no argument")
    return ParsedSlashCommand(name, rest)


def read_last_denial(connection: "DbConnection", session_id: str) -> dict[str, Any] | None:
    """The denial that /why explains: the newest of the session, from the log."""
    from interlock.log.kinds import merge_payload

    rows = connection.query(LAST_DENIAL, (session_id,))
    return merge_payload(*rows[0]) if rows else None
