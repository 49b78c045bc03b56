"""`interlock`: finds the command, runs it, and turns every known failure into one line."""

import os
import sys
from typing import TYPE_CHECKING

from interlock import __version__
from interlock.cli.exits import Exit

if TYPE_CHECKING:
    from cyclopts import App

_GROUPS = {
    "tool": ("interlock.cli.tool:app", "List the tools, or call one through the gates."),
    "policy": ("interlock.cli.policy:app", "What may be done in which mode, and why."),
    "sessions": ("interlock.cli.sessions:app", "List, show, export, delete sessions; switch a mode."),
    "events": ("interlock.cli.events:app", "Read and verify the log of everything that happened."),
    "settings": ("interlock.cli.settings:app", "Show and change the stored settings."),
    "config": ("interlock.cli.config:app", "Show the operator's settings and where they came from."),
    "doctor": ("interlock.cli.doctor:doctor", "Check this installation and say what is wrong."),
    "backup": ("interlock.cli.storage:backup", "Write the whole store into one file."),
    "restore": ("interlock.cli.storage:restore", "Fill the store from a backup, after checking it."),
    "db": ("interlock.cli.storage:app", "Look after the database."),
}


SUMMARY = "An agent runtime: what an agent may do, what it did, and the proof."


def build_app() -> "App":
    from cyclopts import App

    app = App(
        name="interlock",
        help=SUMMARY,
        version=__version__,
        help_format="plaintext",
        result_action="return_value",
    )
    for name, (path, text) in _GROUPS.items():
        app.command(path, name=name, help=text)
    return app


def main(tokens: list[str] | None = None) -> None:
    sys.exit(run(tokens))


def run(tokens: list[str] | None = None) -> int:
    given = sys.argv[1:] if tokens is None else tokens
    if given in ([], ["--help"], ["-h"]):
        return _print_overview()
    from interlock.infra.errors import InterlockError

    try:
        _refuse_bytes(given)
        result = build_app()(given)
    except InterlockError as error:
        return _fail(error)
    except BrokenPipeError:
        # The reader of our output has gone; that is its business, not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ok
    except KeyboardInterrupt:
        return Exit.cancelled
    return result if isinstance(result, int) else Exit.ok


def _print_overview() -> int:
    """The first help page, from the table above alone: asking what there is should take no time."""
    width = max(len(name) for name in _GROUPS)
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in _GROUPS.items()]
    more = "  --help on any command tells its options; --version prints the version."
    sys.stdout.write("\n".join(["Usage: interlock COMMAND", "", SUMMARY, "", *lines, "", more, ""]))
    return Exit.ok


def _refuse_bytes(tokens: list[str]) -> None:
    from interlock.infra.errors import BadUsage

    try:
        "".join(tokens).encode()
    except UnicodeEncodeError:
        raise BadUsage("an argument is not valid UTF-8") from None


def _fail(error: Exception) -> int:
    from interlock.infra.errors import BadUsage, ModeNotOpen

    sys.stderr.write(f"interlock: {' '.join(str(error).split())}\n")
    if isinstance(error, ModeNotOpen):
        return Exit.denied
    return Exit.usage if isinstance(error, BadUsage) else Exit.failed
