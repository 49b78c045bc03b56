"""What somebody is told who types something wrongly: in plain words, and before anything is done."""

from tests.harness.case_tables import each_row
from tests.harness.cli import one_line_error


@each_row(
    ("name", "value", "told"),
    [
        ("TOOL_MAX_READ_BYTES", "lots", "it must be a whole number (got 'lots')"),
        ("TOOL_TIMEOUT_SECONDS", "soon", "it must be a number (got 'soon')"),
        ("TOOL_FS_ENABLED", "maybe", "it must be true or false (got 'maybe')"),
        ("GATEWAY_PORT", "99999", "it must be less than 65536 (got '99999')"),
        ("LOG_LEVEL", "loud", "it must be one of 'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_a_wrong_setting_is_told_in_plain_words(interlock, name, value, told):
    interlock.variables = {name: value}
    assert one_line_error(interlock, "sessions", "list") == f"interlock: {name}: {told}\n"


def test_a_setting_that_is_misspelt_is_told_before_anything_is_worked_on(interlock):
    interlock.variables |= {"TOOL_SHEL_ENABLED": "false", "SESSION_MANAGER": "local/ada:@/tmp/.X11"}
    told = interlock("exec", "what time is it?").stderr.splitlines()
    assert told[0] == (
        "warning: TOOL_SHEL_ENABLED is set but is not a setting; did you mean TOOL_SHELL_ENABLED?"
    )
    # What is nobody's typo is the business of others.
    assert not any("SESSION_MANAGER" in line for line in told)


@each_row(
    ("words", "told"),
    [
        (("exec", "read", "notes.txt"), "interlock exec: unexpected argument: notes.txt"),
        (("exec", "read", "notes.txt"), "Put a task of several words in quotes."),
        (("sessions", "list", "more"), "interlock sessions list: unexpected argument: more"),
        (("serve", "--port", "x"), '--port: "x" is not a whole number.'),
    ],
)
def test_a_wrong_command_line_is_told_in_plain_words(interlock, words, told):
    assert told in interlock(*words, expect=2).stderr


def test_help_is_what_many_write_for_it(interlock):
    assert interlock("help").stdout == interlock("--help").stdout
    assert (
        interlock("help", "sessions", "search").stdout == interlock("sessions", "search", "--help").stdout
    )
    assert "nonsense" in interlock("help", "nonsense", expect=2).stderr


def test_a_tool_that_there_is_not_is_told_with_the_nearest(interlock):
    told = interlock("tool", "call", "readfile", expect=1)
    assert "there is no tool named 'readfile'" in told.stdout
    assert "did you mean read_file? To list the tools: interlock tool list\n" in told.stderr
    # What the refusal says already is not said again.
    said = interlock("tool", "call", "current_tme", expect=1)
    assert "Did you mean current_time?" in said.stdout
    assert "meant" not in said.stderr
    # What is for machines stays as a model is given it.
    assert "meant" not in interlock("tool", "call", "readfile", "--json", expect=1).stderr
    explained = interlock("policy", "explain", "readfile", expect=1).stdout
    assert "declaration" not in explained


def test_whoever_may_open_a_mode_is_told_how(interlock):
    told = interlock("tool", "call", "read_file", expect=3).stdout
    assert "(the same command with --mode chat --root FOLDER); continue without it.\n" in told
    told = interlock("tool", "call", "memory_append", expect=3).stdout
    assert "(the same command with --mode coding); continue without it.\n" in told
    told = interlock("policy", "explain", "memory_append", expect=3).stdout
    assert "(the same command with --mode coding); continue without it.\n" in told
