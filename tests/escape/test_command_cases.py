"""Commands that must be refused and commands that must not be, by the judge alone: nothing is executed.

`command_cases*.jsonl` have one case a line. What is only to be contained, or is the operator's to decide,
has its decision recorded here, so that a change of it is seen.
"""

from collections import Counter

import pytest

from interlock.commands.judge import CommandJudge
from interlock.config.protected_names import PROTECTED_NAMES
from tests.escape.cases import command_cases
from tests.harness.case_tables import each_row

CASES = command_cases()
HOME, FOLDER = "/home/user", "/home/user/ws"


@pytest.fixture(scope="module")
def judge() -> CommandJudge:
    return CommandJudge((), PROTECTED_NAMES, HOME)


def ids(expect: str) -> list:
    return [pytest.param(case["command"], id=case["id"]) for case in CASES if case["expect"] == expect]


@each_row("command", ids("refuse"))
def test_a_destructive_command_is_refused(judge, command):
    refused = judge.judge(command, FOLDER)
    assert refused is not None
    assert all((refused.rule, refused.subcommand, refused.message, refused.next_action))


@each_row("command", ids("allow"))
def test_ordinary_work_is_not_refused(judge, command):
    assert judge.judge(command, FOLDER) is None


@each_row("command", ids("policy"))
def test_what_the_operator_decides_is_not_refused_by_itself(judge, command):
    assert judge.judge(command, FOLDER) is None


def test_the_decisions_about_the_rest_are_known(judge):
    decided = Counter(
        (case["expect"], judge.judge(case["command"], FOLDER) is not None)
        for case in CASES
        if case["expect"] in {"contain", "refuse_or_contain"}
    )
    assert decided == {
        ("contain", False): 182,
        ("contain", True): 11,
        ("refuse_or_contain", True): 300,
        ("refuse_or_contain", False): 149,
    }


def test_there_are_enough_cases():
    assert len(CASES) > 4500
    assert len({case["id"] for case in CASES}) == len(CASES)
