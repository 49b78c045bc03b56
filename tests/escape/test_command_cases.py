"""Commands that must be refused and commands that must not be, by the judge alone: nothing is executed.

`command_cases*.jsonl` have one case a line. `refuse` is written plainly; `disguised` is computed by a shell
(variables, substitutions, encodings), so no rule has to see it and the sandbox must contain it. What is
only to be contained has its decision counted here, so that a change is seen.
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
    """What the rules refuse, and what the kernel must hold: `test_contained_commands.py` runs that."""
    decided = Counter(
        (case["expect"], judge.judge(case["command"], FOLDER) is not None)
        for case in CASES
        if case["expect"] not in {"allow", "policy"}
    )
    assert decided == {
        ("refuse", True): 1488,
        ("disguised", False): 175,
        ("contain", False): 182,
        ("contain", True): 11,
        ("refuse_or_contain", True): 240,
        ("refuse_or_contain", False): 209,
    }


def test_everything_that_no_rule_sees_any_more_is_run_against_bait(judge):
    assert all(case.get("bait") for case in CASES if case["expect"] == "disguised")


def test_there_are_enough_cases():
    assert len(CASES) > 4500
    assert len({case["id"] for case in CASES}) == len(CASES)
