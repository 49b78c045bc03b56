"""`interlock`: finds the command, runs it, and prints every known failure as one line.

Command groups are registered by module path and imported when chosen, and `--help` is answered from a table
before cyclopts is loaded: importing everything would cost more than most commands do.
"""

import errno
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING, TextIO, cast

from interlock import __version__
from interlock.cli.exit_codes import ExitCode
from interlock.core.best_effort_stream import BestEffortStream

if TYPE_CHECKING:
    from cyclopts import App, CycloptsError
    from rich.panel import Panel

# Errors of a disk that accepts no more data.
_NOT_WRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

# The command that lists the valid ids, for each error about an unknown one.
_SHOWN_BY = {
    "SESSION_NOT_FOUND": "interlock sessions list --group all",
    "TASK_NOT_FOUND": "interlock tasks list",
    "QUESTION_NOT_FOUND": "interlock questions list",
    "RUN_NOT_FOUND": "interlock workflow runs",
    "WORKFLOW_NOT_FOUND": "interlock workflow list",
    "AGENT_NOT_FOUND": "interlock agents list",
    "NOTHING_TO_UNDO": "interlock sessions list --group all",
    "INVALID_SETTINGS": "interlock settings show",
}

_GROUPS = {
    "init": ("interlock.cli.init_workspace:init", "Create a workspace with initial files and folders."),
    "chat": ("interlock.cli.chat:chat", "Chat with an agent in the terminal."),
    "exec": ("interlock.cli.execute:execute", "Run one task and print the answer, for scripts."),
    "serve": ("interlock.cli.serve:serve", "Serve the page and the WebSocket, and run the tasks."),
    "telegram": (
        "interlock.cli.telegram_bot:telegram",
        "Let allowed people chat with an agent in Telegram.",
    ),
    "worker": ("interlock.cli.worker:worker", "Run tasks until stopped."),
    "supervisor": ("interlock.cli.worker:supervisor", "Keep worker processes running."),
    "tasks": ("interlock.cli.tasks:app", "List, show, cancel and retry tasks."),
    "token": ("interlock.cli.token:app", "Create, list and revoke tokens; create a login link."),
    "tool": ("interlock.cli.tool:app", "List the tools, or call one through the gates."),
    "mcp": ("interlock.cli.mcp:app", "Add and inspect MCP servers, and classify their tools."),
    "policy": ("interlock.cli.policy:app", "Show what each mode allows, and why."),
    "sessions": (
        "interlock.cli.sessions:app",
        "List, find, show, export and delete sessions; switch the mode.",
    ),
    "workflow": ("interlock.cli.workflow:app", "List, check, run and control workflows."),
    "agents": ("interlock.cli.agents:app", "List, show and check the agents of the workspace."),
    "questions": ("interlock.cli.questions:app", "List, show, answer and close questions."),
    "undo": ("interlock.cli.undo:undo", "Undo the file changes of a session, a task or a call."),
    "events": ("interlock.cli.events:app", "Read and verify the event log."),
    "redact": ("interlock.cli.redact:redact", "Redact the secrets in a text, from stdin to stdout."),
    "settings": ("interlock.cli.settings:app", "Show and change the stored settings."),
    "config": ("interlock.cli.config:app", "Show the operator's settings and their sources."),
    "doctor": ("interlock.cli.doctor:doctor", "Check this installation and report problems."),
    "backup": ("interlock.cli.database:backup", "Write the whole store to one file."),
    "restore": ("interlock.cli.database:restore", "Replace the store with a backup, after verifying it."),
    "db": ("interlock.cli.database:app", "Maintain the database."),
    "completion": ("interlock.cli.completion:completion", "Install completion for your shell."),
}


SUMMARY = "An agent runtime: what an agent may do, what it did, and the proof."


def build_app() -> "App":
    from cyclopts import App, Parameter

    app = App(
        name="interlock",
        help=SUMMARY,
        version=__version__,
        help_format="plaintext",
        result_action="return_value",
        error_formatter=_usage_panel,
        default_parameter=Parameter(show_default=_shows_default),
    )
    for name, (path, text) in _GROUPS.items():
        app.command(path, name=name, help=text)
    return app


def _shows_default(default: object) -> str | None:
    """The default to show; None for options that are off or empty by default."""
    return None if default is None or default is False or default in ((), "") else str(default)


def main(tokens: list[str] | None = None) -> None:
    _open_missing_streams()
    _install_exception_hooks()
    sys.exit(run(tokens))


def run(tokens: list[str] | None = None) -> int:
    given = sys.argv[1:] if tokens is None else tokens
    try:
        if given[:1] == ["help"]:
            # `interlock help` and `interlock help chat` work as --help does.
            given = [*given[1:], "--help"]
        if given in ([], ["--help"], ["-h"]):
            code: object = _print_overview()
        else:
            _refuse_bytes(given)
            code = build_app()(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output closed the pipe. That is not an error.
        _discard_output()
        return ExitCode.ok
    except KeyboardInterrupt:
        return ExitCode.cancelled
    except Exception as error:  # noqa: BLE001 - the last resort: one line, whatever happened
        _discard_output()
        return _fail(error)
    return code if isinstance(code, int) else ExitCode.ok


def _open_missing_streams() -> None:
    """Open /dev/null for standard streams that the caller closed.

    Failed writes to stderr, on a full disk for example, are dropped: the work continues.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - it lives as long as we do
    sys.stderr = cast("TextIO", BestEffortStream(sys.stderr))


def _install_exception_hooks() -> None:
    """Escape uncaught tracebacks, also of threads and finalisers, which Python would print raw."""

    def print_traceback(error: BaseException | None) -> None:
        if error is not None:
            sys.stderr.write(_safe("".join(traceback.format_exception(error)), lines=True))

    sys.excepthook = lambda _kind, error, _trace: print_traceback(error)
    sys.unraisablehook = lambda told: print_traceback(told.exc_value)
    threading.excepthook = lambda told: print_traceback(told.exc_value)


def _usage_panel(error: "CycloptsError") -> "Panel":
    from cyclopts import CoercionError, CycloptsPanel, MissingArgumentError, UnusedCliTokensError

    words = " ".join(["interlock", *(error.command_chain or ())])
    told, argument = str(error), error.argument
    if isinstance(error, MissingArgumentError) and argument is not None and argument.index is not None:
        # A positional argument: do not show the name it would have as an option.
        told = f"{words} needs {argument.name.lstrip('-').upper()}."
    elif isinstance(error, UnusedCliTokensError):
        told = f"{words}: unexpected argument: {' '.join(error.unused_tokens or ())}"
        if "exec" in words.split():
            told += "\nPut a task of several words in quotes."
    elif isinstance(error, CoercionError) and error.token is not None and error.target_type is int:
        told = f'{error.token.keyword or error.token.value}: "{error.token.value}" is not a whole number.'
    return CycloptsPanel(_safe(f"{told}\nFor help, run: {words} --help", lines=True))


def _discard_output() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_overview() -> int:
    """Print the first help page from the table above, without importing any command."""
    width = max(len(name) for name in _GROUPS)
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in _GROUPS.items()]
    more = "  --help after any command shows its options; --version prints the version."
    sys.stdout.write("\n".join(["Usage: interlock COMMAND", "", SUMMARY, "", *lines, "", more, ""]))
    return ExitCode.ok


def _refuse_bytes(tokens: list[str]) -> None:
    from interlock.core.errors import BadUsage

    try:
        "".join(tokens).encode()
    except UnicodeEncodeError:
        raise BadUsage("an argument is not valid UTF-8") from None


def _safe(text: str, *, lines: bool = False) -> str:
    from interlock.core.text import escape_control_characters
    from interlock.redaction.factory import build_crash_redactor

    return escape_control_characters(build_crash_redactor().text(text), lines=lines)


def _fail(error: Exception) -> int:
    """Print a failure as one line on stderr, without secrets or terminal control characters."""
    from interlock.core.errors import BadUsage, InterlockError, ModeNotOpen

    sentence = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.errno in _NOT_WRITTEN and not error.filename:
        # An error about a file names it; this one is about our own output.
        sentence = f"the output cannot be written: {error.strerror}"
    if not isinstance(error, InterlockError | OSError):
        sentence = f"unexpected error ({type(error).__name__}): {sentence}"
        if os.environ.get("LOG_LEVEL") == "debug":
            sys.stderr.write(_safe("".join(traceback.format_exception(error)), lines=True))
    if isinstance(error, InterlockError) and (command := _SHOWN_BY.get(error.code)):
        sentence = f"{sentence}; see: {command}"
    sys.stderr.write(f"interlock: {_safe(sentence)}\n")
    if isinstance(error, ModeNotOpen):
        return ExitCode.denied
    return ExitCode.usage if isinstance(error, BadUsage) else ExitCode.failed
