"""The environment of a command: a short list, without the server's own variables."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_PASSED_ON = ("TZ", "LANG", "LC_ALL", "LC_CTYPE")
_USUAL_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
NOWHERE = "/nonexistent"


def command_environment(
    server: Mapping[str, str], readable: Iterable[Path], private: Path | None
) -> dict[str, str]:
    """Build the environment.

    `private` holds the home and temporary directory of a command that may write.
    """
    passed = {name: server[name] for name in _PASSED_ON if name in server}
    home = str(private / "home") if private else NOWHERE
    own = {
        "PATH": os.pathsep.join(_search_path(server.get("PATH", ""), tuple(readable))),
        "HOME": home,
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "USER": "agent",
        "LOGNAME": "agent",
        # Programs must not wait for input by prompting, paging or starting an editor.
        "GIT_TERMINAL_PROMPT": "0",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "CI": "1",
    }
    if private:
        own["TMPDIR"] = str(private / "tmp")
    return {"LC_ALL": "C.UTF-8"} | passed | own


def _search_path(given: str, readable: tuple[Path, ...]) -> list[str]:
    """The server's program directories that a command can read, and the usual ones."""
    usable = [
        folder
        for folder in given.split(os.pathsep)
        if folder.startswith("/") and any(Path(folder).is_relative_to(path) for path in readable)
    ]
    return list(dict.fromkeys([*usable, *_USUAL_PATH, f"{sys.base_prefix}/bin"]))
