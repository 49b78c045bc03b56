"""Finding sessions again by their words, and taking the log along as lines."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import CliRunner, one_line_error
from tests.harness.terminal import PseudoTerminal

CHECK = Path(__file__).parents[2] / "examples" / "check_export.py"
# What a terminal would obey, and what would turn the text around it.
HOSTILE = "the \x9b2J zebra \u202e is here"


@pytest.fixture
def person(tmp_path) -> CliRunner:
    return CliRunner(tmp_path, {"WORKSPACE_DIR": str(tmp_path / "workspace")})


def said(person: CliRunner, *words: str) -> str:
    """In a session of its own; gives its id."""
    person("exec", *words)
    return person.json("sessions", "list", "--group", "all")[0]["id"]


def test_sessions_are_found_by_what_was_said_in_them(person):
    first = said(person, "what time is it in Zurich?")
    said(person, "what time is it in Tokyo?")
    found = person("sessions", "search", "zurich", "TIME").stdout
    assert found.startswith(f"{first}  ")
    assert "what time is it in Zurich?" in found
    assert "Tokyo" not in found
    matches = person.json("sessions", "search", "zurich")
    assert {match["session"]["id"] for match in matches} == {first}
    assert matches[0]["seq"] is None, "the title comes first"


def test_no_more_is_shown_than_was_asked_for_and_that_is_told(person):
    for _ in range(3):
        said(person, "what time is it in Zurich?")
    assert len(person.json("sessions", "search", "zurich", "--limit", "2")) == 2
    assert "the first 2 matches" in person("sessions", "search", "zurich", "--limit", "2").stderr
    assert person("sessions", "search", "zurich", "--limit", "50").stderr == ""


def test_nothing_found_is_told_by_the_exit_code_too(person):
    nothing = person("sessions", "search", "zebra", expect=1)
    assert (nothing.stdout, nothing.stderr) == ("", "no matches\n")
    assert person.json("sessions", "search", "zebra", expect=1) == []
    assert "WORDS" in person("sessions", "search", expect=2).stderr
    assert "the words" in one_line_error(person, "sessions", "search", " ", expect=2)
    assert "200 characters" in one_line_error(person, "sessions", "search", "z" * 201, expect=1)
    # An option that there is not is no word to look for.
    assert "--jsn" in person("sessions", "search", "zebra", "--jsn", expect=2).stderr


def checked(file: Path) -> str:
    done = subprocess.run([sys.executable, CHECK, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_events_or_those_of_a_session_are_exported(person, tmp_path):
    first, second = said(person, "what time is it?"), said(person, "remember the milk")
    everything = [json.loads(line) for line in person("events", "export").stdout.splitlines()]
    assert {event["stream"] for event in everything} >= {first, second}
    one = [json.loads(line) for line in person("events", "export", first, "--json").stdout.splitlines()]
    assert one == [event for event in everything if event["stream"] == first]
    assert [event["seq"] for event in one] == list(range(1, len(one) + 1))
    later = person("events", "export", first, "--after", "3").stdout.splitlines()
    assert [json.loads(line) for line in later] == one[3:]
    after = everything[4]["cursor"]
    rest = person("events", "export", "--after", after).stdout.splitlines()
    assert [json.loads(line) for line in rest] == everything[5:]


def test_an_export_of_whatever_was_said_can_be_checked_from_a_file_and_from_a_pipe(person, tmp_path):
    session = said(person, HOSTILE)
    file, piped, talk = (tmp_path / name for name in ("all.jsonl", "piped.jsonl", "talk.jsonl"))
    assert f"lines to {file}" in person("events", "export", "--out", str(file)).stderr
    assert file.stat().st_mode & 0o777 == 0o600
    piped.write_text(person("events", "export").stdout)
    assert piped.read_bytes() == file.read_bytes()
    talk.write_text(person("sessions", "export", session).stdout)
    for each in (file, piped, talk):
        assert "whole:" in checked(each)
    with PseudoTerminal(person, "events", "export", session) as terminal:
        assert terminal.ends() == 0
    assert "zebra" in terminal.all
    assert "\x9b" not in terminal.all
    assert "\u202e" not in terminal.all


def test_what_cannot_be_exported_is_told_and_leaves_no_file(person, tmp_path):
    file = tmp_path / "new.jsonl"
    assert "the log has no events of" in one_line_error(
        person, "events", "export", "s_nobody", "--out", str(file)
    )
    assert "not a cursor" in one_line_error(
        person, "events", "export", "--after", "x", "--out", str(file), expect=2
    )
    assert not file.exists()
    file.write_text("mine")
    assert "File exists" in one_line_error(person, "events", "export", "--out", str(file))
    assert file.read_text() == "mine"


def test_a_reader_that_goes_away_is_no_fault(person):
    said(person, "what time is it?")
    process = person.start("events", "export", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    errors = process.stderr.read().decode()
    process.stderr.close()
    process.wait()
    assert "Traceback" not in errors
    assert "fault" not in errors
