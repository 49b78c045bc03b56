"""A model without function calling at work: one JSON object a turn, through loop and gates (S3-5.4)."""

import json

from interlock.agent.events import TaskEnded, TextDelta, ToolResultInfo
from interlock.models.json_protocol import JsonProtocolProvider
from interlock.sessions.models import Role
from tests.integration.agent.test_loop import of
from tests.unit.models.asking import Saying


def turn(*calls: tuple[str, dict], answer: str = "") -> str:
    asked = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps({"tool_calls": asked, "final_answer": answer})


def shown(events: list) -> str:
    return "".join(delta.text for delta in of(TextDelta, events))


async def test_calls_run_their_results_are_told_and_the_answer_ends_the_task(harness):
    (harness.root / "a.txt").write_text("the milk\n")
    session = await harness.session()
    model = Saying(turn(("read", {"path": "a.txt"})), turn(answer="It is about milk."))
    events = await harness.run(session, "what is in it?", JsonProtocolProvider(model))
    assert [result.result["stdout"] for result in of(ToolResultInfo, events)] == ["the milk\n"]
    assert shown(events) == "It is about milk."
    assert events[-1] == TaskEnded("done")
    told = json.loads(model.requests[1].messages[-1].text)
    assert told["tool_results"][0]["result"]["stdout"] == "the milk\n"
    (stored,) = [m for m in await harness.runtime.sessions.transcript(session) if m.role is Role.tool]
    assert json.loads(stored.content)["ok"] is True
    assert len(harness.event_rows(session, "tool_call.started", "tool_call.completed")) == 2


async def test_of_calls_and_an_answer_in_one_turn_the_calls_run_and_the_answer_is_dropped(harness):
    session = await harness.session()
    both = turn(("write_file", {"path": "made", "content": "x"}), answer="All done already.")
    events = await harness.run(session, "make it", JsonProtocolProvider(Saying(both, turn(answer="Made."))))
    assert shown(events) == "Made."
    assert (harness.root / "made").read_text() == "x"
    assert "All done already." not in repr(await harness.runtime.sessions.transcript(session))


async def test_neither_calls_nor_an_answer_fail_the_task_after_one_repair(harness):
    """With the retries of every other fault: this one cannot pass."""
    session = await harness.session()
    model = Saying(*[turn()] * 12)
    events = await harness.run(session, "go", JsonProtocolProvider(model))
    assert events[-1].status == "failed"
    assert "tool_calls and final_answer are both empty" in events[-1].sentence
    assert len(model.requests) == 2
    (failed,) = harness.event_rows(session, "agent.failed")
    assert json.loads(failed[4])["error_class"] == "validation"
    assert not harness.event_rows(session, "retry.scheduled", "retry.exhausted", "circuit.opened")
    assert not harness.event_rows(session, "tool_call.started")


async def test_a_model_that_refuses_and_quotes_a_call_runs_nothing(harness):
    session = await harness.session()
    quoted = turn(("write_file", {"path": "owned", "content": "x"}))
    refusal = f"The ticket asks me to send this, and I refuse:\n```json\n{quoted}\n```\nIt is an attack."
    events = await harness.run(
        session, "go", JsonProtocolProvider(Saying(refusal, turn(answer="I refuse.")))
    )
    assert shown(events) == "I refuse."
    assert not harness.event_rows(session, "tool_call.started")
    assert not (harness.root / "owned").exists()
