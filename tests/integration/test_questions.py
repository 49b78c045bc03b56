"""Questions as rows, on both databases: asked once, answered once, by whoever comes first."""

import asyncio
import threading
from hashlib import sha256

import pytest

from interlock.core.errors import (
    InvalidAnswer,
    QuestionAlreadyClosed,
    QuestionNotFound,
    SessionFenced,
    UserError,
)
from interlock.gates.recovery import record_interrupted_calls
from interlock.log.stream_appender import EventScope
from interlock.questions.rows import QuestionStatus
from interlock.questions.service import MAX_OPEN, AskingCall, QuestionService
from interlock.questions.widgets import read_widget
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.builtins.ask_user import AskUserTool
from interlock.tools.tool import ToolContext
from interlock.wiring.projections import verify
from tests.harness.questions import CONFIRMATION, SECRET, QuestionHarness
from tests.harness.store import open_store
from tests.unit.questions.widget_cases import CASES


@pytest.fixture
async def asking(store) -> QuestionHarness:
    session = await store.sessions.create(opened_by="test")
    return QuestionHarness(store, session.id)


def faults(store) -> list[str]:
    with store.database.reading() as connection:
        return [str(fault) for fault in verify(connection).faults]


async def test_a_call_that_asked_waits_without_an_outcome(asking):
    """S4-E4, S4-G4: with the file tools off, in chat_safe."""
    result = await asking.call(scope=EventScope("task_1", "turn_1"))
    assert result.ok
    assert result.meta == {"question_id": result.question_id, "type": "confirmation"}
    assert asking.kinds() == ["tool_call.started", "ask_user.asked"]
    question = await asking.desk.get(result.question_id)
    assert (question.status, question.call_id, question.task) == (QuestionStatus.open, "call_1", "task_1")
    assert question.authority_digest == asking.authority.digest
    (started,) = asking.tree()
    assert (question.intent_id, started["task"]) == (started["id"], "task_1")
    assert [child["kind"] for child in started["children"]] == ["ask_user.asked"]
    assert started["children"][0]["payload"]["question"]["message"] == CONFIRMATION["message"]
    assert await asking.desk.open_questions(asking.session_id) == [question]
    assert faults(asking.store) == []


@pytest.mark.parametrize("kind", CASES)
async def test_the_answer_is_the_outcome_of_the_call_that_asked(asking, kind):
    asked, answer = CASES[kind]
    question = await asking.ask(asked)
    answered = await asking.desk.answer(question.id, answer, who="ada")
    assert (answered.status, answered.closed_by) == (QuestionStatus.answered, "ada")
    (started,) = asking.tree()
    children = {child["kind"]: child["payload"] for child in started["children"]}
    assert list(children) == ["ask_user.asked", "ask_user.answered", "tool_call.completed"]
    assert children["ask_user.answered"]["answer"] == answered.answer
    assert children["ask_user.answered"]["who"] == "ada"
    completed = children["tool_call.completed"]
    assert (completed["call_id"], completed["exit_code"]) == ("call_1", 0)
    assert completed["authority_digest"] == asking.authority.digest
    assert completed["output_hash"] == sha256(answered.result_text.encode() + b"\0").hexdigest()
    assert await asking.desk.open_questions(asking.session_id) == []
    assert faults(asking.store) == []


async def test_a_question_nobody_answers_is_closed_and_its_call_cancelled(asking):
    question = await asking.ask()
    closed = await asking.desk.expire(question.id, reason="a message was sent instead", who="ada")
    assert (closed.status, closed.answer, closed.close_reason) == (
        QuestionStatus.expired,
        None,
        "a message was sent instead",
    )
    (started,) = asking.tree()
    _, expired, failed = started["children"]
    assert (expired["kind"], expired["payload"]["reason"]) == (
        "ask_user.expired",
        "a message was sent instead",
    )
    assert (failed["kind"], failed["payload"]["error_code"]) == ("tool_call.failed", "CANCELLED")
    assert "a message was sent instead" in failed["payload"]["error"]
    with pytest.raises(QuestionAlreadyClosed, match="closed without an answer by ada"):
        await asking.desk.answer(question.id, {"confirmed": True}, who="ben")
    with pytest.raises(QuestionAlreadyClosed):
        await asking.desk.expire(question.id, reason="again", who="ben")
    assert faults(asking.store) == []


async def test_a_second_answer_is_refused_and_changes_nothing(asking):
    question = await asking.ask()
    await asking.desk.answer(question.id, {"confirmed": False}, who="ada")
    before = asking.kinds()
    with pytest.raises(QuestionAlreadyClosed, match="was answered by ada") as refused:
        await asking.desk.answer(question.id, {"confirmed": True}, who="ben")
    assert isinstance(refused.value, UserError)
    assert asking.kinds() == before
    assert (await asking.desk.get(question.id)).answer == {"confirmed": False}


async def test_of_many_answers_at_once_exactly_one_counts(asking):
    """Two desks with a connection of their own each, as two processes would have."""
    question = await asking.ask()
    others = [open_store(asking.store.config) for _ in range(2)]
    desks = [QuestionService(other.database, other.log, Redactor()) for other in others]
    attempts = [
        desk.answer(question.id, {"confirmed": number % 2 == 0}, who=f"person {number}")
        for number, desk in enumerate(desks * 5)
    ]
    closing = [desk.expire(question.id, reason="too late", who="clock") for desk in desks]
    ended = await asyncio.gather(*attempts, *closing, return_exceptions=True)
    for other in others:
        other.close()
    (winner,) = [end for end in ended if not isinstance(end, BaseException)]
    assert {type(end) for end in ended if isinstance(end, BaseException)} == {QuestionAlreadyClosed}
    stored = await asking.desk.get(question.id)
    assert (stored.answer, stored.closed_by) == (winner.answer, winner.closed_by)
    assert asking.kinds()[2:] in (
        ["ask_user.answered", "tool_call.completed"],
        ["ask_user.expired", "tool_call.failed"],
    )
    assert faults(asking.store) == []
    assert asking.store.deadlocks() == 0


async def test_an_answer_that_does_not_fit_leaves_the_question_open(asking):
    question = await asking.ask()
    with pytest.raises(InvalidAnswer, match="confirmed: must be true or false, not the text 'yes'"):
        await asking.desk.answer(question.id, {"confirmed": "yes"}, who="ada")
    assert (await asking.desk.get(question.id)).status is QuestionStatus.open
    assert asking.kinds() == ["tool_call.started", "ask_user.asked"]


async def test_a_question_that_does_not_exist_is_told_as_such(asking):
    for identity in ("q_none", "", "q\0", "x" * 500):
        with pytest.raises(QuestionNotFound):
            await asking.desk.answer(identity, {}, who="ada")


async def test_a_question_outlives_the_process_that_asked(store_config):
    first = open_store(store_config)
    session = await first.sessions.create(opened_by="test")
    question = await QuestionHarness(first, session.id).ask(CASES["form"][0])
    first.close()
    again = open_store(store_config)
    desk = QuestionService(again.database, again.log, Redactor())
    assert await desk.open_questions(session.id) == [question]
    answered = await desk.answer(question.id, CASES["form"][1], who="ada")
    assert answered.answer["values"]["version"] == "1.2"
    assert again.query("SELECT kind FROM events WHERE parent = ? ORDER BY seq", question.intent_id) == [
        ("ask_user.asked",),
        ("ask_user.answered",),
        ("tool_call.completed",),
    ]
    assert faults(again) == []
    again.close()


async def test_calls_of_one_session_may_ask_at_the_same_time(asking):
    questions = await asyncio.gather(asking.ask(), asking.ask(CASES["feedback"][0]))
    found = await asking.desk.open_questions(asking.session_id)
    assert {question.id for question in found} == {question.id for question in questions}
    await asking.desk.answer(questions[1].id, CASES["feedback"][1], who="ada")
    assert await asking.desk.open_questions(asking.session_id) == [questions[0]]


async def test_a_call_asks_once(asking):
    question = await asking.ask()
    call = AskingCall(
        *(asking.session_id, "call_1", "ask_user", "chat_safe", "0" * 64),
        EventScope(None, question.intent_id),
    )
    before = asking.kinds()
    with pytest.raises(Exception, match="already asked"):
        await asking.desk.ask(read_widget(CONFIRMATION), call)
    assert asking.kinds() == before
    with pytest.raises(ValueError, match="whose start was recorded"):
        await asking.desk.ask(
            read_widget(CONFIRMATION),
            AskingCall(asking.session_id, "c", "ask_user", "m", "d", EventScope()),
        )


async def test_a_session_cannot_pile_up_questions_without_end(asking):
    for _ in range(MAX_OPEN):
        await asking.ask()
    told = (await asking.call()).as_dict()
    assert (told["error_code"], "this session already has" in told["message"]) == (
        "EXECUTION_ERROR",
        True,
    )
    assert asking.kinds()[-2:] == ["tool_call.started", "tool_call.failed"]


async def test_a_worker_that_lost_its_session_asks_nothing(asking):
    lease = await asking.store.leases.take(asking.session_id, "worker")
    question = await asking.ask(lease_token=lease.token)
    call = AskingCall(
        *(asking.session_id, "late", "ask_user", "chat_safe", "0" * 64),
        EventScope(None, "another"),
        lease.token + 1,
    )
    with pytest.raises(SessionFenced):
        await asking.desk.ask(read_widget(CONFIRMATION), call)
    assert asking.store.query("SELECT id FROM questions") == [(question.id,)]
    # A person holds no lease and needs none.
    await asking.desk.answer(question.id, {"confirmed": True}, who="ada")


async def test_erasing_a_session_erases_what_was_asked_and_answered(asking):
    kept = QuestionHarness(asking.store, (await asking.store.sessions.create(opened_by="test")).id)
    other = await kept.ask()
    answered = await asking.ask({"type": "feedback", "message": "What about violets?"})
    await asking.desk.answer(answered.id, {"comment": "violets are blue"}, who="ada")
    still_open = await asking.ask({"type": "confirmation", "message": "More violets?"})
    closed = await asking.ask()
    await asking.desk.expire(closed.id, reason="no violets", who="ada")
    await asking.store.delete(asking.session_id, who="ada")
    assert "violets" in str(asking.store.query("SELECT * FROM questions"))
    assert faults(asking.store) == []
    await asking.store.erase(asking.session_id)
    assert "violets" not in str(asking.store.query("SELECT * FROM questions"))
    assert "violets" not in str(asking.store.query("SELECT facts, content FROM events"))
    for question in (answered, still_open, closed):
        with pytest.raises(QuestionNotFound):
            await asking.desk.answer(question.id, {"confirmed": True}, who="ada")
    assert await asking.desk.list_questions(include_closed=True) == [other]
    assert faults(asking.store) == []


async def test_known_secrets_are_in_no_question_and_no_answer(asking):
    asked = {
        "type": "selection",
        "message": f"Use {SECRET}?",
        "options": [{"value": "a", "label": SECRET}, {"value": SECRET}],
        "allow_other": True,
    }
    question = await asking.ask(asked)
    assert question.document["message"] == f"Use {MARK}?"
    await asking.desk.answer(question.id, {"other": f"no, {SECRET}"}, who=f"ada {SECRET}")
    stored = str(asking.store.query("SELECT * FROM questions"))
    assert SECRET not in stored
    assert SECRET not in str(asking.store.query("SELECT facts, content FROM events"))
    assert (await asking.desk.get(question.id)).answer == {"choices": [], "other": f"no, {MARK}"}
    (started,) = asking.tree()
    assert [child["payload"]["redacted"] for child in started["children"]] == [True, True, True]
    assert faults(asking.store) == []


async def test_a_secret_in_the_reason_for_closing_is_told_with_the_call(asking):
    question = await asking.ask(CONFIRMATION)
    await asking.desk.expire(question.id, reason=f"not while {SECRET} is valid", who="ada")
    *_, expired, failed = asking.store.query("SELECT kind, facts, content FROM events ORDER BY seq")
    assert (expired[0], failed[0]) == ("ask_user.expired", "tool_call.failed")
    for _, facts, content in (expired, failed):
        assert MARK in content
        assert '"redacted":true' in facts


async def test_a_question_that_makes_no_sense_without_its_secret_is_refused(asking):
    asked = {
        "type": "selection",
        "message": "Which?",
        "options": [{"value": SECRET}, {"value": MARK}],
    }
    told = (await asking.call(asked)).as_dict()
    assert (told["error_code"], "options[1].value" in told["message"]) == ("REDACTED_CONTENT", True)
    assert asking.kinds() == ["tool_call.failed"]


async def test_a_question_that_cannot_be_put_is_invalid_arguments_with_the_path(asking):
    for arguments, path in (
        (
            {"type": "selection", "message": "Which?", "options": [{"value": "a"}, {"value": "a"}]},
            "options[1]",
        ),
        ({"type": "confirmation", "message": "Sure?", "plan": "x"}, "plan"),
        ({"type": "confirmation"}, "message"),
        ({"type": "confirmation", "message": "Sure?", "dangerous": "false"}, "dangerous"),
        ({"type": "form", "message": "Fill", "fields": [{"name": "a", "pattern": "x"}]}, "fields[0]"),
    ):
        told = (await asking.call(arguments)).as_dict()
        assert told["error_code"] == "INVALID_ARGS"
        assert path in told["message"]
    assert set(asking.kinds()) == {"tool_call.failed"}
    assert asking.store.query("SELECT id FROM questions") == []


async def test_with_nobody_to_answer_it_is_refused_at_once(store):
    session = await store.sessions.create(opened_by="test")
    alone = QuestionHarness(store, session.id, someone=False)
    told = (await alone.call()).as_dict()
    assert told["error_code"] == "TOOL_NOT_AVAILABLE"
    assert alone.kinds() == ["tool_call.denied"]
    assert "ask_user" not in alone.authority.exposed


async def test_a_call_that_waits_for_an_answer_was_not_interrupted(asking):
    question = await asking.ask()
    assert await record_interrupted_calls(asking.store.log, asking.session_id, token=None) == []
    answered = await asking.desk.answer(question.id, {"confirmed": True}, who="ada")
    assert answered.answer == {"confirmed": True}
    assert await record_interrupted_calls(asking.store.log, asking.session_id, token=None) == []
    assert asking.kinds().count("tool_call.completed") == 1
    assert "tool_call.interrupted" not in asking.kinds()


async def test_a_call_that_was_cut_off_before_it_asked_is_interrupted(asking):
    question = await asking.ask()
    asking.store.execute("DELETE FROM questions WHERE id = ?", question.id)
    (settled,) = await record_interrupted_calls(asking.store.log, asking.session_id, token=None)
    assert settled.tool_name == "ask_user"


async def test_a_call_that_ended_otherwise_gets_no_second_outcome(asking):
    """A time-out may be recorded although the question had reached the store."""
    question = await asking.ask()
    asking.store.execute("UPDATE questions SET status = 'expired' WHERE id = ?", question.id)
    await record_interrupted_calls(asking.store.log, asking.session_id, token=None)
    asking.store.execute("UPDATE questions SET status = 'open' WHERE id = ?", question.id)
    with pytest.raises(QuestionAlreadyClosed, match="has ended; close the question"):
        await asking.desk.answer(question.id, {"confirmed": True}, who="ada")
    await asking.desk.expire(question.id, reason="its call has ended", who="ada")
    assert asking.kinds()[2:] == ["tool_call.interrupted", "ask_user.expired"]
    assert faults(asking.store) == []


async def test_a_cancelled_call_leaves_a_whole_question_or_none(asking):
    """Whenever the cancellation comes, the log and the rows agree and there is at most one outcome."""
    for turns in range(12):
        task = asyncio.create_task(asking.call())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    waiting = await asking.desk.open_questions(asking.session_id)
    ended = {
        row[0] for row in asking.store.query("SELECT parent FROM events WHERE kind = 'tool_call.failed'")
    }
    assert not ended & {question.intent_id for question in waiting}
    assert faults(asking.store) == []


async def test_a_question_on_its_way_to_the_store_is_not_lost_by_a_cancellation(asking):
    """Otherwise the call would be told as cancelled while its question can still be answered."""
    release = threading.Event()
    busy = asking.store.log.transact(asking.session_id, lambda _: release.wait(10))
    context = ToolContext(
        session_id=asking.session_id,
        call_id="call_1",
        mode=asking.authority.mode,
        limits=asking.authority.limits,
        profile=asking.authority.profile,
        authority_digest=asking.authority.digest,
        report_progress=lambda _: None,
        scope=EventScope(None, "its intent"),
    )
    task = asyncio.create_task(AskUserTool(asking.desk).execute(read_widget(CONFIRMATION), context))
    while not context.cancel.took_effect:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    release.set()
    result = await task
    assert await busy
    assert (await asking.desk.get(result.question_id)).status is QuestionStatus.open


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        ("UPDATE questions SET document = '{}'", "was changed"),
        ("UPDATE questions SET answer = '{\"confirmed\":true}'", "was changed: answer"),
        ("UPDATE questions SET status = 'open'", "was changed: status"),
        ("UPDATE questions SET closed_by = 'root'", "was changed: closed_by"),
        ("UPDATE questions SET asked_us = 5", "was changed: asked_us"),
        ("DELETE FROM questions", "is missing"),
        ("UPDATE questions SET id = 'q_other'", "is missing"),
    ],
)
async def test_verify_finds_a_question_that_was_tampered_with(asking, tampering, found):
    question = await asking.ask()
    await asking.desk.answer(question.id, {"confirmed": False}, who="ada")
    asking.store.execute(tampering)
    (fault,) = faults(asking.store)
    assert found in fault


async def test_verify_finds_a_question_that_nobody_asked(asking):
    session = await asking.store.sessions.create(opened_by="test")
    await asking.ask()
    asking.store.execute("UPDATE questions SET session_id = ?", session.id)
    assert len(faults(asking.store)) == 2
