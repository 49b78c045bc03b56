"""The process's own log, as an operator reads it and as a program that embeds Interlock hears it."""

import io
import logging
import re
import sys

import pytest

from interlock.core.logging import StructuredLogger, log_to_stderr, set_log_redaction
from tests.harness.log_capture import capture_logs

SECRET = "tulip-harbour"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def without_secret(value):
    if isinstance(value, dict):
        return {without_secret(key): without_secret(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secret(item) for item in value]
    return value.replace(SECRET, "***") if isinstance(value, str) else value


def test_a_line_has_its_time_its_level_its_name_and_its_facts(capsys):
    log_to_stderr("info")
    StructuredLogger("interlock.here").warning(
        "tool_raised", tool_name="read_file", reason="it is full", left=0, files=[]
    )
    found = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning (.*)\n", capsys.readouterr().err)
    assert found[1] == 'tool_raised tool_name=read_file reason="it is full" left=0 files=[]'


def test_what_is_below_the_level_is_not_shown(capsys):
    log_to_stderr("warning")
    log = StructuredLogger("interlock.here")
    log.info("quiet")
    log.debug("quiet")
    log.error("loud")
    assert [line.split()[1:] for line in capsys.readouterr().err.splitlines()] == [["error", "loud"]]


def test_no_fact_and_no_name_forges_a_line_or_drives_the_terminal(capsys):
    log_to_stderr("info")
    StructuredLogger("interlock.here").info("a\nb\x1b[2J", **{"k\n": "v\r\nforged \x1b[2J\u202e"})
    (line,) = capsys.readouterr().err.splitlines()
    assert not [each for each in "\x1b\r\u202e" if each in line]


def test_secrets_are_taken_out_of_names_facts_and_tracebacks(capsys):
    set_log_redaction(without_secret)
    log_to_stderr("debug")
    with pytest.raises(ValueError, match=SECRET) as broken:
        raise ValueError(SECRET)
    StructuredLogger("interlock.here").error(
        f"x{SECRET}", **{SECRET: [{"a": (SECRET,)}]}, exc_info=broken.value
    )
    others = logging.LogRecord("somebody.else", logging.WARNING, "", 0, "it was %s", (SECRET,), None)
    logging.lastResort.handle(others)
    told = capsys.readouterr().err
    assert SECRET not in told
    assert "ValueError: ***" in told
    assert 'x*** ***=[{"a":["***"]}]' in told
    assert "WARNING somebody.else: it was ***" in told


def test_whoever_embeds_it_hears_it_without_secrets_and_keeps_a_log_of_their_own(caplog):
    set_log_redaction(without_secret)
    StructuredLogger("interlock.here").warning("told", what=SECRET)
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == (
        "interlock.here",
        "WARNING",
        "told what=***",
    )
    assert record.filename == "test_logging.py"
    assert logging.getLogger("interlock").handlers == []


@pytest.mark.parametrize(
    ("variables", "is_colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_is_given_colours_unless_it_wants_none(monkeypatch, variables, is_colored):
    for name, value in ({"TERM": "xterm", "NO_COLOR": ""} | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", Screen())
    log_to_stderr("info")
    StructuredLogger("interlock.here").error("red")
    assert ("\x1b[31m" in sys.stderr.getvalue()) is is_colored


def test_set_up_twice_it_tells_once(capsys):
    log_to_stderr("info")
    log_to_stderr("info")
    with capture_logs() as logs:
        StructuredLogger("interlock.here").info("once")
    assert len(capsys.readouterr().err.splitlines()) == len(logs) == 1
