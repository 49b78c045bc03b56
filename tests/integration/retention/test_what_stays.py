"""What somebody reads later is not erased, and what is left can still be read."""

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import UserError
from interlock.gates.authority_ledger import AuthorityLedger, find_authority
from interlock.log.checkpoint import write_checkpoint
from interlock.log.event import Event
from interlock.log.kinds import SYSTEM_STREAM, SandboxProbed
from interlock.log.read import iter_stream
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.sessions.runtime_settings import patch_for
from interlock.tools.registry import ToolRegistry


async def test_what_is_read_later_is_kept(archive):
    store = archive.store
    archive.clock.days_ago(60)
    await store.settings.update(patch_for("tools.fs.enabled", False), who="ada")
    authority = compile_authority(ToolRegistry(), AuthorityInputs(ToolMode.chat_safe))
    await AuthorityLedger(store.log).enter(authority)
    await store.log.append(SYSTEM_STREAM, SandboxProbed(backend="b", holds=True, rows=[["a", True, "x"]]))
    session = await archive.session(60)
    await archive.task(session, 50)
    anchor = await write_checkpoint(store.log)
    swept = await archive.sweep()
    assert swept.streams == 1
    assert archive.left(session) == set()
    with store.database.reading() as connection:
        assert find_authority(connection, authority.digest)["genuine"] is True
    assert (await store.settings.current()).settings.tools.fs.enabled is False
    assert archive.faults(anchors=[anchor]) == []
    assert archive.faults(only=session) == []


class FromTheFuture(Event):
    kind = "future.thing"

    def payload(self) -> dict:
        return {"a": 1}


async def test_the_facts_of_kinds_of_another_version_stay(archive):
    session = await archive.session(60)
    await archive.store.log.append(session, FromTheFuture())
    await archive.sweep()
    assert archive.told("future.thing") == [{"a": 1}]


async def test_a_deleted_session_is_swept_as_well_and_an_erased_one_is_not_touched_again(archive):
    erased, hidden = [await archive.session(60) for _ in range(2)]
    for session in (erased, hidden):
        await archive.task(session, 50)
        await archive.store.delete(session, who="ada")
    await archive.store.erase(erased)
    assert (await archive.sweep()).streams == 1
    assert archive.left(hidden) == set()
    await archive.store.erase(hidden)
    assert archive.faults() == []


async def test_a_task_whose_words_are_gone_cannot_be_retried(archive):
    session = await archive.session(60)
    task = await archive.task(session, 50)
    await archive.sweep()
    with pytest.raises(UserError):
        await archive.shop.tasks.retry(task.id, who="ada")


async def test_an_erased_session_still_tells_what_was_done_and_by_whom(archive):
    session = await archive.session(60)
    await archive.task(session, 50)
    with archive.store.database.reading() as connection:
        before = [stored.event() for stored in iter_stream(connection, session)]
    await archive.sweep()
    with archive.store.database.reading() as connection:
        after = [stored.event() for stored in iter_stream(connection, session)]
    assert [event.kind for event in before] == [event.kind for event in after]
    for was, event in zip(before, after, strict=True):
        facts = was.payload()
        assert event.payload() == facts | dict.fromkeys(event.erasable)
    assert {"ada"} <= {event.who for event in after if hasattr(event, "who")}
