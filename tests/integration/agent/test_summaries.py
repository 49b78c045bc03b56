"""What a model gets of a conversation that is too long: a summary that it wrote, or the first words of each
message."""

from collections.abc import AsyncGenerator

from interlock.agent.resume import read_resume_state
from interlock.log.stream_appender import EventScope
from interlock.log.task_events import ContextCompacted
from interlock.models.provider import ModelReply, ModelRequest, ModelStreamItem
from tests.integration.agent.test_model_faults import DOWN, Answering, payloads


def is_for_a_summary(request: ModelRequest) -> bool:
    return "You write the summary" in request.messages[0].text


class Summarizing(Answering):
    """Answers every request, those for a summary with these in turn."""

    def __init__(self, *summaries: object) -> None:
        super().__init__("m", *summaries)
        self.summaries = 0
        self.others: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        if is_for_a_summary(request):
            self.summaries += 1
            async for item in super().stream(request):
                yield item
        else:
            self.others.append(request)
            yield ModelReply("y" * 300)


async def talk(harness, model, session: str, questions: int = 6) -> None:
    harness.context_tokens, harness.writes_summaries = 1000, True
    for number in range(questions):
        await harness.run(session, f"question {number} " + "x" * 300, model)


async def test_the_model_writes_the_summary_if_the_operator_chose_so(harness):
    model, session = Summarizing(*["The user asks and asks."] * 9), await harness.session()
    await talk(harness, model, session)
    compactions = payloads(harness, session, "context.compacted")
    assert len(compactions) == model.summaries > 0
    for compaction in compactions:
        assert compaction["summary"] == "The user asks and asks."
        assert compaction["model"] == "m"
        assert compaction["input_tokens"] > 100
        assert compaction["tokens_after"] < compaction["tokens_before"]
    # Each task begins with what the one before it had: the summary is read from the log.
    assert all("The user asks and asks." in request.messages[1].text for request in model.others[-2:])
    turns = payloads(harness, session, "turn.completed")
    with harness.runtime.database.reading() as connection:
        ((spent,),) = connection.query("SELECT CAST(sum(input_tokens) AS BIGINT) FROM usage", ())
    assert spent == sum(each["input_tokens"] for each in (*turns, *compactions))


async def test_a_model_that_writes_none_leaves_the_cut(harness):
    model, session = Summarizing(*[DOWN, ModelReply(" ")] * 5), await harness.session()
    await talk(harness, model, session)
    compactions = payloads(harness, session, "context.compacted")
    assert [each["summary"] for each in compactions] == [""] * len(compactions)
    # One that failed cost nothing; one that wrote nothing did.
    assert {each["model"] for each in compactions} == {"", "m"}
    assert "person: question" in model.others[-1].messages[1].text


async def test_a_restart_gives_the_same_summary_also_after_a_later_cut(harness):
    model, session = Summarizing("Early questions.", *[DOWN] * 9), await harness.session()
    await talk(harness, model, session, 9)
    assert [bool(each["summary"]) for each in payloads(harness, session, "context.compacted")][:2] == [
        True,
        False,
    ]
    text = model.others[-1].messages[1].text
    assert "Early questions.\n" in text
    assert "person: question" in text


async def test_an_erased_summary_is_not_missed(harness):
    model, session = Summarizing(*["A summary."] * 9), await harness.session()
    await talk(harness, model, session, 5)
    # As retention leaves it.
    erased = "UPDATE events SET content = NULL WHERE kind = 'context.compacted'"
    await harness.runtime.log.transact(session, lambda transaction: transaction.connection.change(erased))
    harness.writes_summaries = False
    await harness.run(session, "and now?", model)
    text = model.others[-1].messages[1].text
    assert "A summary." not in text
    assert "person: question" in text


async def test_a_person_may_have_older_messages_summarised_at_once(harness):
    model, session = Summarizing("All so far."), await harness.session()
    harness.writes_summaries = True
    for number in range(3):
        await harness.run(session, f"question {number}", model)
    await harness.runtime.sessions.request_compaction(session, who="test")
    for number in range(3, 5):
        await harness.run(session, f"question {number}", model)
    (compaction,) = payloads(harness, session, "context.compacted")
    assert compaction["summary"] == "All so far."
    sent = [message.text for message in model.others[3].messages[1:]]
    assert sent[0].endswith("All so far.")
    assert sent[1:] == ["question 3"]
    # It happens once, and stays so.
    assert model.summaries == 1
    assert model.others[4].messages[1].text == sent[0]


async def test_without_a_model_that_writes_it_is_cut_and_with_nothing_older_it_is_nothing(harness):
    model, session = Summarizing(), await harness.session()
    await harness.runtime.sessions.request_compaction(session, who="test")
    await harness.run(session, "question 0", model)
    assert payloads(harness, session, "context.compacted") == []
    await harness.runtime.sessions.request_compaction(session, who="test")
    await harness.run(session, "question 1", model)
    (compaction,) = payloads(harness, session, "context.compacted")
    assert (compaction["summary"], compaction["model"]) == ("", "")


async def test_a_delegated_tasks_summary_does_not_replace_its_parents(sqlite_store):
    session = (await sqlite_store.sessions.create(opened_by="test")).id
    for task, through, summary in (("t_1", 5, "the parent's"), ("t_1.a", 9, "the child's")):
        compacted = ContextCompacted(through_seq=through, tokens_before=9, tokens_after=1, summary=summary)
        await sqlite_store.log.append(session, compacted, scope=EventScope(task))
    state = await sqlite_store.database.read(lambda db: read_resume_state(db, session, "t_1", 1))
    assert state.compactions == ((5, "the parent's"),)
