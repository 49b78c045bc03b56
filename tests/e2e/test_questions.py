"""Asking and answering at the command line: each step is a process of its own."""

import json

from tests.harness.case_tables import each_row
from tests.harness.cli import one_line_error
from tests.unit.questions.widget_cases import CASES

CONFIRMATION = '{"type": "confirmation", "message": "Delete the old backups?"}'


def put(interlock, arguments: str = CONFIRMATION) -> tuple[str, str]:
    told = interlock.json("tool", "call", "ui.ask_user", "--ask", "--args", arguments)
    return told["session_id"], told["meta"]["question_id"]


def test_a_script_with_nobody_to_answer_is_refused_with_5(interlock):
    told = interlock.json("tool", "call", "ui.ask_user", "--args", CONFIRMATION, expect=5)
    assert (told["error_code"], told["tool_name"]) == ("TOOL_NOT_AVAILABLE", "ask_user")
    assert "no person is available to answer" in told["message"]
    assert interlock.json("questions", "list", "--closed") == []
    assert "no person is available" in interlock("tool", "call", "ask_user", expect=5).stdout


def test_what_a_policy_denies_is_denied_whether_or_not_somebody_is_there(interlock):
    interlock("settings", "set", "tools.denied_tools", '["ui.ask_user"]')
    for somebody in ((), ("--ask",)):
        told = interlock.json("tool", "call", "ask_user", *somebody, "--args", CONFIRMATION, expect=3)
        assert told["message"].endswith("it is on the list of denied tools in the stored settings")
    assert interlock.json("questions", "list", "--closed") == []


def test_asking_stays_possible_with_the_file_tools_off(interlock):
    """S4-E4, S4-T4, S4-UX5"""
    interlock("settings", "set", "tools.fs.enabled", "false")
    _, question = put(interlock)
    (listed,) = interlock.json("questions", "list")
    assert (listed["id"], listed["status"]) == (question, "open")
    assert "Yes" in interlock("questions", "answer", question, "--yes").stdout


def test_a_question_is_listed_shown_and_answered_once(interlock):
    session, question = put(interlock)
    (listed,) = interlock.json("questions", "list")
    assert (listed["id"], listed["session_id"], listed["status"]) == (question, session, "open")
    assert "Delete the old backups?" in interlock("questions", "list", "--session", session).stdout
    assert interlock.json("questions", "list", "--session", "s_other") == []
    shown = interlock("questions", "show", question)
    assert "Delete the old backups?" in shown.stdout
    assert "--yes or --no" in shown.stderr
    assert "Yes" in interlock("questions", "answer", question, "--yes").stdout
    second = one_line_error(interlock, "questions", "answer", question, "--no")
    assert "was answered by local:" in second
    assert interlock.json("questions", "list") == []
    (closed,) = interlock.json("questions", "list", "--closed")
    assert (closed["status"], closed["answer"]) == ("answered", {"confirmed": True})
    (_, started) = interlock.json("events", "tree", session)
    kinds = [child["kind"] for child in started["children"]]
    assert kinds == ["ask_user.asked", "ask_user.answered", "tool_call.completed"]
    assert "answered" in interlock("questions", "show", question).stdout
    assert interlock.json("events", "verify")["ok"] is True


def test_a_question_can_be_closed_unanswered(interlock):
    session, question = put(interlock)
    interlock("questions", "close", question, "--reason", "not needed")
    assert "not needed" in interlock("questions", "show", question).stdout
    assert "closed without an answer" in one_line_error(interlock, "questions", "answer", question, "--yes")
    (_, started) = interlock.json("events", "tree", session)
    assert started["children"][-1]["payload"]["error_code"] == "CANCELLED"
    assert "no question q_none" in one_line_error(interlock, "questions", "close", "q_none")


@each_row(
    ("kind", "said", "answer"),
    [
        (
            "form",
            [
                *("--set", "version=1.2", "--set", "share=0.25", "--set", "retries=2"),
                *("--set", "public=yes", "--set", "day=2026-12-31"),
                *("--set", "systems=mac", "--set", "systems=linux"),
            ],
            {
                "values": {
                    "version": "1.2",
                    "notes": None,
                    "share": 0.25,
                    "retries": 2,
                    "public": True,
                    "day": "2026-12-31",
                    "channel": None,
                    "systems": ["mac", "linux"],
                }
            },
        ),
        (
            "selection",
            ["--choose", "a", "--choose", "b", "--text", "and c"],
            {"choices": ["a", "b"], "other": "and c"},
        ),
        ("plan_review", ["--text", "smaller"], {"decision": "revise", "comment": "smaller"}),
        ("plan_review", ["--yes"], {"decision": "approve"}),
        ("plan_review", ["--no", "--text", "why?"], {"decision": "reject", "comment": "why?"}),
        ("feedback", ["--rate", "4", "--text", "good"], {"rating": 4, "comment": "good"}),
        ("action_selection", ["--choose", "retry"], {"action": "retry"}),
        ("confirmation", ["--args", '{"confirmed": false}'], {"confirmed": False}),
    ],
)
def test_each_type_is_answered_in_its_own_words(interlock, kind, said, answer):
    _, question = put(interlock, json.dumps(CASES[kind][0]))
    assert interlock.json("questions", "answer", question, *said)["answer"] == answer


def test_an_answer_that_does_not_fit_says_why_and_leaves_the_question_open(interlock):
    _, question = put(interlock, json.dumps(CASES["form"][0]))
    wrong = one_line_error(
        interlock, "questions", "answer", question, "--set", "version=1", "--set", "retries=many"
    )
    assert "values.retries: must be a whole number, not the text 'many'" in wrong
    for said in ([], ["--yes"], ["--set", "version"], ["--args", "["], ["--args", "{}", "--yes"]):
        one_line_error(interlock, "questions", "answer", question, *said, expect=2)
    assert interlock.json("questions", "show", question)["status"] == "open"


def test_deleting_the_session_takes_its_questions_along(interlock):
    session, question = put(interlock)
    interlock("sessions", "delete", session, "--yes")
    assert "no question" in one_line_error(interlock, "questions", "show", question)
    assert interlock.json("events", "verify")["ok"] is True
