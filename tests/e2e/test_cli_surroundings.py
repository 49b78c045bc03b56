"""The command line in bad surroundings: one line, a non-zero exit, nothing damaged, nothing forged."""

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import interlock as interlock_package
from tests.harness.case_tables import each_row
from tests.harness.cli import one_line_error
from tests.harness.cli_in_process import run_in_process


@each_row(
    ("variable", "value", "text"),
    [
        ("TOOL_TIMEOUT_SECONDS", "soon", "TOOL_TIMEOUT_SECONDS"),
        ("SESSION_DEFAULT_MODE", "coding", "ADR 0025"),
        ("TOOL_ALLOWED_ROOTS", "", "TOOL_ALLOWED_ROOTS"),
        ("DATABASE_URL", "mysql://x", "DATABASE_URL"),
        ("DATABASE_URL", "sqlite://", "DATABASE_URL"),
        ("DATABASE_URL", "postgresql://x@127.0.0.1:1/x", "PostgreSQL"),
    ],
)
def test_a_wrong_setting_is_one_line(interlock, variable, value, text):
    interlock.variables = {variable: value}
    assert text in one_line_error(interlock, "sessions", "list")


def test_a_foreign_or_damaged_store_is_one_line(interlock):
    state = interlock.home / "state"
    state.mkdir()
    (state / "interlock.db").write_bytes(b"not a database at all")
    assert "not an Interlock database" in one_line_error(interlock, "sessions", "list")
    assert (state / "interlock.db").read_bytes() == b"not a database at all"
    assert "failed" in interlock("doctor", expect=1).stdout


def test_a_store_of_0_1_is_one_line(interlock):
    interlock("db", "upgrade")
    store = sqlite3.connect(interlock.home / "state" / "interlock.db")
    with store:
        store.execute("UPDATE alembic_version SET version_num = '0015'")
    store.close()
    assert "or by 0.1, which no other" in one_line_error(interlock, "tool", "call", "get_current_time")
    (found,) = [each for each in interlock.json("doctor", expect=1) if each["what"] == "database"]
    assert (found["state"], "start with a new state folder" in found["detail"]) == ("failed", True)


def test_a_locked_store_is_one_line(interlock):
    interlock("db", "upgrade")
    interlock.variables["DATABASE_BUSY_TIMEOUT_SECONDS"] = "0.2"
    other = sqlite3.connect(interlock.home / "state" / "interlock.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    took: list[float] = []
    # Ten seconds are what is waited for by default. Of three tries, others may have the processors in two.
    while min(took, default=10) >= 10 and len(took) < 3:
        began = time.monotonic()
        assert "locked by another process" in one_line_error(
            interlock, "settings", "set", "tools.fs.enabled", "false"
        )
        took.append(time.monotonic() - began)
    assert min(took) < 10, took
    other.close()


def test_a_state_folder_that_is_a_file_is_one_line(interlock):
    (interlock.home / "state").write_text("")
    assert "state folder" in one_line_error(interlock, "sessions", "list")


def test_stored_text_cannot_drive_the_terminal(interlock):
    interlock("tool", "call", "no\x1b[31mtool", expect=1)
    done = interlock("sessions", "list", "--group", "all")
    assert "\x1b" not in done.stdout
    assert "\x1b" not in interlock("events", "tail").stdout


def test_stored_text_cannot_forge_a_line(interlock):
    forged = "x\n    99  2026-11-15 04:00:00  settings.changed who=local:ada\u202e\x9b"
    session = interlock.json("tool", "call", forged, expect=1)["session_id"]
    for command in (
        ["events", "tree", session],
        ["events", "tail"],
        ["sessions", "list", "--group", "all"],
    ):
        lines = interlock(*command).stdout.splitlines()
        assert not any(line.strip().startswith("99") for line in lines)
    raw = interlock("events", "tail", "--json").stdout
    assert "\u202e" not in raw
    assert "\x9b" not in raw


def test_a_reader_that_goes_away_is_no_error(interlock):
    interlock("tool", "call", "current_time")
    script = (
        f"{sys.executable} -m interlock events tail --json | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=interlock.environment)
    assert done.stdout.strip() in {"0", "141"}
    assert "Traceback" not in done.stderr


def test_an_argument_that_is_no_text_is_wrong_usage(interlock):
    done = interlock.run("tool", "call", os.fsdecode(b"\xff\xfe"))
    assert done.returncode == 2
    assert done.stderr == b"interlock: an argument is not valid UTF-8\n"


def test_a_root_whose_name_is_no_text_is_one_line(interlock, tmp_path):
    """However it is named: by the environment, by a link, or as the folder one stands in."""
    odd, link = tmp_path / os.fsdecode(b"b\xe4d"), tmp_path / "link"
    odd.mkdir()
    link.symlink_to(odd)

    def told(*more: str, cwd: Path | None = None, **variables: str) -> tuple[int, str]:
        done = interlock.run("tool", "call", "ls", "--mode", "chat", *more, cwd=cwd, **variables)
        assert done.stdout == b""
        return done.returncode, done.stderr.decode()

    leads = "resolves to a folder whose name is not valid UTF-8\n"
    assert told(TOOL_ALLOWED_ROOTS=str(odd)) == (
        1,
        "interlock: TOOL_ALLOWED_ROOTS: its value is not valid UTF-8\n",
    )
    assert told(TOOL_ALLOWED_ROOTS=str(link)) == (1, f"interlock: TOOL_ALLOWED_ROOTS: '{link}' {leads}")
    assert told("--root", str(link)) == (2, f"interlock: --root {link}: it {leads}")
    assert told("--root", ".", cwd=odd) == (2, f"interlock: --root .: it {leads}")


@pytest.mark.parametrize("home", [None, "relative"])
def test_an_account_without_a_home_is_told_what_to_set(tmp_path, home):
    variables = {"PATH": os.environ["PATH"]} | ({"HOME": home} if home else {})
    done = run_in_process(["config", "show"], environment=variables, cwd=tmp_path)
    assert b"Traceback" not in done.stderr


def test_a_working_directory_that_is_gone_is_one_line(interlock, tmp_path):
    (tmp_path / "gone").mkdir()
    script = f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && {sys.executable} -m interlock config show"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=interlock.environment)
    assert done.returncode == 1
    assert done.stderr.startswith("interlock: WORKSPACE_DIR")


@each_row(
    ("variable", "value"),
    [
        ("TOOL_MAX_TIMEOUT_SECONDS", "100000"),
        ("TOOL_MAX_READ_BYTES", "2199023255552"),
        ("DATABASE_URL", "postgresql://me:a[b@127.0.0.1:1/x"),
        ("DATABASE_URL", "sqlite:////tmp/x.db?cache=shared"),
        ("DATABASE_URL", "postgresql://me:hunter2%zz@127.0.0.1:1/x?password=topsecret"),
        ("INTERLOCK_STATE_DIR", ""),
        ("INTERLOCK_STATE_DIR", "a?b"),
    ],
)
def test_odd_settings_are_one_line_without_their_secrets(interlock, variable, value):
    interlock.variables = {variable: value}
    done = interlock("sessions", "list", expect=1)
    assert done.stderr.count("\n") == 1
    assert "unexpected" not in done.stderr
    assert not any(secret in done.stderr for secret in ("hunter2", "topsecret"))


@each_row("url", ["postgresql:///db?user=x&password=hunter2secret", "postgresql://u:p%40ss%2Fw0rd@h/d"])
def test_no_way_of_writing_a_password_is_shown(interlock, url):
    interlock.variables["DATABASE_URL"] = url
    shown = interlock("config", "show").stdout
    assert not any(secret in shown for secret in ("hunter2", "p%40ss", "w0rd"))


def test_the_account_is_named_not_its_environment(interlock):
    import pwd

    interlock.variables |= {"LOGNAME": "ada", "USER": "ada"}
    interlock("settings", "set", "tools.image.enabled", "false")
    (event,) = interlock.json("events", "tree", "system")
    assert event["payload"]["who"] == f"local:{pwd.getpwuid(os.getuid()).pw_name}"


def test_the_doctor_warns_of_a_root_that_holds_interlock_itself(interlock):
    interlock.variables["TOOL_ALLOWED_ROOTS"] = str(Path(interlock_package.__file__).parents[1])
    warned = [row["detail"] for row in interlock.json("doctor") if row["state"] == "warning"]
    assert any("contains Interlock's own program" in detail for detail in warned)


def test_a_denied_name_that_matches_nothing_is_pointed_out_by_the_doctor(interlock):
    interlock.variables["TOOL_DENIED"] = "curent_time"
    assert "there is no such tool" in interlock("doctor").stdout


@pytest.mark.parametrize("redirect", [">&-", "2>&-", ">/dev/full"])
def test_closed_or_full_outputs_leave_no_trace_back(interlock, redirect):
    script = f"{sys.executable} -m interlock doctor {redirect}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=interlock.environment)
    assert "Traceback" not in done.stderr
    assert done.returncode == (1 if "full" in redirect else 0)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("chat", 0),
        ("exec -", 2),
        pytest.param("redact", 0, marks=pytest.mark.full),
        pytest.param("tool call --jsonl", 0, marks=pytest.mark.full),
    ],
)
def test_a_closed_input_is_an_empty_one(interlock, words, code):
    script = f"{sys.executable} -m interlock {words} <&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=interlock.environment)
    assert done.returncode == code, done.stderr
    assert "unexpected error" not in done.stderr


@each_row(
    "arguments",
    [["events", "tail", "--limit", "99999999999999999999"], ["sessions", "list", "--limit", "0"]],
)
def test_numbers_out_of_range_are_wrong_usage(interlock, arguments):
    assert interlock(*arguments, expect=2).stdout == ""


def test_a_place_beyond_every_log_is_wrong_usage(interlock):
    said = one_line_error(interlock, "events", "tail", "--after", f"{2**70}.1", expect=2)
    assert f"'{2**70}.1' is not a cursor; it is past the end of every log" in said
    said = one_line_error(interlock, "events", "tail", "system", "--after", f"{2**70}", expect=2)
    assert f"--after {2**70}: within a session, it must be the sequence number of an event" in said


@each_row("after", [["--after", "9" * 5000 + ".1"], ["system", "--after", "9" * 5000]])
def test_a_place_of_thousands_of_digits_is_wrong_usage_and_not_repeated(interlock, after):
    said = one_line_error(interlock, "events", "tail", *after, expect=2)
    assert "characters)" in said
    assert len(said) < 200
