"""Eighty columns, and names that nobody knows: what is shown can be copied, and the next step is named."""

import re

import pytest

from tests.harness.case_tables import each_row
from tests.harness.cli import CliRunner, one_line_error
from tests.harness.terminal import PseudoTerminal, script

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def person(tmp_path) -> CliRunner:
    shell = CliRunner(tmp_path, {"WORKSPACE_DIR": str(tmp_path / "workspace"), "COLUMNS": "80"})
    shell.variables["MODEL"] = script(shell.home, "msg:Done.")
    shell("exec", "count the windmills of the whole country and tell me how many there are")
    return shell


def _shown(person: CliRunner, *command: str) -> list[str]:
    with PseudoTerminal(person, *command) as terminal:
        assert terminal.ends() == 0
        return COLOUR.sub("", terminal.all).splitlines()


def test_no_id_is_broken_where_there_are_eighty_columns(person):
    (task,) = person.json("tasks", "list")
    (session,) = person.json("sessions", "list", "--group", "all")
    person("token", "add", "ci")
    (token,) = person.json("token", "list")
    listed = {
        ("tasks", "list"): task["id"],
        ("sessions", "list", "--group", "all"): session["id"],
        ("token", "list"): token["id"],
    }
    for command, identity in listed.items():
        lines = _shown(person, *command)
        assert identity in "\n".join(lines), lines
        assert max(map(len, lines)) <= 80, lines
    assert session["id"][:6] not in "".join(_shown(person, "tasks", "list"))
    matrix = _shown(person, "policy", "matrix")
    assert max(map(len, matrix[:-2])) <= 80
    words = set(re.findall(r"\bcap\w*", "\n".join(matrix)))
    assert words == {"capability"}


def test_a_list_of_tasks_says_what_was_asked(person):
    (line,) = person("tasks", "list").stdout.splitlines()[2:]
    assert "count the windmills of the whole country" in line
    (session,) = person.json("sessions", "list", "--group", "all")
    assert session["id"] in line
    assert "windmills" in "".join(_shown(person, "tasks", "list"))


@each_row(
    ("command", "next_step"),
    [
        (("sessions", "show", "s_0"), "interlock sessions list --group all"),
        (("events", "tree", "s_0"), "interlock sessions list --group all"),
        (("tasks", "show", "t_0"), "interlock tasks list"),
        (("questions", "show", "q_0"), "interlock questions list"),
        (("workflow", "run", "nothing"), "interlock workflow list"),
        (("agents", "show", "nobody"), "interlock agents list"),
        (("undo", "s_0"), "interlock sessions list --group all"),
        (("settings", "set", "nothing", "1"), "interlock settings show"),
    ],
)
def test_a_name_that_is_not_there_leads_to_those_that_are(interlock, command, next_step):
    assert one_line_error(interlock, *command).endswith(f"; see: {next_step}\n")


def test_a_wrong_use_leads_to_the_help_and_the_help_says_only_what_matters(interlock):
    wrong = interlock("events", "tree", expect=2)
    assert "For help, run: interlock events tree --help" in wrong.stderr + wrong.stdout
    shown = interlock("chat", "--help").stdout + interlock("serve", "--help").stdout
    for default in ("False", "None", "()", '""'):
        assert f"[default: {default}]" not in shown
    assert "JSON lines" in interlock("exec", "--help").stdout
    assert "as JSON." in interlock("undo", "--help").stdout
    assert "[default: 2]" in interlock("supervisor", "--help").stdout
