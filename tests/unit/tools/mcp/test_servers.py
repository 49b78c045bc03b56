"""What an operator may describe as a server, and what is refused with a sentence."""

import sys
from pathlib import Path

import pytest

from interlock.core.errors import BadUsage
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.launch import LaunchCeiling, first_unreadable_path
from interlock.tools.mcp.server import (
    AddServerRequest,
    McpServerConfig,
    NamedValue,
    ReferenceUnresolved,
    make_server,
    resolve_values,
)
from tests.harness.case_tables import each_row

TRUE = ("/bin/true",)
WEB = "https://example.org/mcp"


@each_row(
    ("wish", "reason"),
    [
        (AddServerRequest(id="Bad Name", command=TRUE), "is not a valid server id"),
        (AddServerRequest(id="x" * 21, command=TRUE), "is not a valid server id"),
        (AddServerRequest(id="", command=TRUE), "is not a valid server id"),
        (AddServerRequest(id="a__b", command=TRUE), "is not a valid server id"),
        (AddServerRequest(id="ok"), "either a command"),
        (AddServerRequest(id="ok", command=TRUE, url=WEB), "either a command"),
        (AddServerRequest(id="ok", command=("no-such-program-anywhere",)), "no executable program"),
        (AddServerRequest(id="ok", command=("/bin/true", "a\0b")), "contains a null character"),
        (AddServerRequest(id="ok", command=("/bin/true", "a\udcff")), "not valid UTF-8"),
        (AddServerRequest(id="ok", url=f"{WEB}\udcff"), "not valid UTF-8"),
        (AddServerRequest(id="ok", command=("/bin/true", "a" * 10_000)), "too long"),
        (
            AddServerRequest(id="ok", command=("/bin/true", "--token=ghp_" + "a1B2" * 9)),
            "contains a secret",
        ),
        (AddServerRequest(id="ok", url=WEB, roots="write"), "only to a command"),
        (AddServerRequest(id="ok", url=WEB, environment=("A=b",)), "only to a command"),
        (AddServerRequest(id="ok", command=TRUE, headers=("A=b",)), "only to a URL"),
        (AddServerRequest(id="ok", command=TRUE, environment=("API_KEY=abcdef",)), "API_KEY=env:VARIABLE"),
        (AddServerRequest(id="ok", command=TRUE, environment=("A=file:relative",)), "absolute path"),
        (AddServerRequest(id="ok", command=TRUE, environment=("no value",)), "write NAME=VALUE"),
        (AddServerRequest(id="ok", command=TRUE, environment=("=x",)), "write NAME=VALUE"),
        (AddServerRequest(id="ok", command=TRUE, environment=("A=b",) * 51), "at most 50"),
        (AddServerRequest(id="ok", command=TRUE, roots="all"), "not one of none, read, write"),
        (
            AddServerRequest(id="ok", command=TRUE, readable=(Path("/no/such/folder"),)),
            "no such file or folder",
        ),
    ],
)
def test_what_cannot_be_a_server_is_told_why(wish, reason):
    with pytest.raises(BadUsage, match=reason):
        make_server(wish, Redactor())


def test_a_server_is_stored_as_it_was_described():
    wish = AddServerRequest(
        id="a-1",
        command=("true", "-x"),
        environment=("A=b=c", "KEY=env:SOME", "OTHER=file:/run/secret"),
        readable=(Path("/usr/share"),),
        roots="none",
        network=True,
    )
    server = make_server(wish, Redactor())
    assert Path(server.command[0]).is_absolute()
    assert McpServerConfig.from_dict("a-1", server.as_dict()) == server


def test_a_reference_is_looked_up_when_it_is_needed_and_secret_from_then_on(monkeypatch, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("from-a-file-0815\n")
    monkeypatch.setenv("SOME", "from-a-variable")
    redactor = Redactor()
    assert redactor.text("from-a-variable") == "from-a-variable"
    given = (NamedValue("A", "env:SOME"), NamedValue("B", f"file:{kept}"), NamedValue("C", "plain words"))
    assert resolve_values(given, redactor) == {
        "A": "from-a-variable",
        "B": "from-a-file-0815",
        "C": "plain words",
    }
    shown = redactor.text("from-a-variable and from-a-file-0815 and plain words")
    assert shown == "***REDACTED*** and ***REDACTED*** and plain words"


def test_a_reference_to_nothing_says_so(tmp_path):
    for value in ("env:NOT_SET_ANYWHERE", f"file:{tmp_path}/nothing", f"file:{tmp_path}"):
        with pytest.raises(ReferenceUnresolved, match="A is read from"):
            NamedValue("A", value).resolved()


def test_what_the_sandbox_would_not_let_a_command_read_is_found(tmp_path):
    script = tmp_path / "server.py"
    script.write_text("")
    server = McpServerConfig(id="a", command=(sys.executable, str(script)))
    assert first_unreadable_path(server, LaunchCeiling(roots=(Path("/srv"),))) == script
    assert first_unreadable_path(server, LaunchCeiling(roots=(tmp_path,))) is None
    without = McpServerConfig(id="a", command=(sys.executable, str(script)), readable=(tmp_path,))
    assert first_unreadable_path(without, LaunchCeiling()) is None
