"""A digest is answerable: what it stood for is in the log before the first call under it."""

import asyncio

from interlock.config.modes import ToolMode
from interlock.gates.authority_ledger import AuthorityLedger, find_authority
from interlock.log.read import read_stream
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.tools.registry import ToolRegistry
from interlock.wiring.projections import verify
from tests.harness.store import open_store
from tests.harness.tools import DeclaredTool


def authority(*names: str):
    registry = ToolRegistry()
    for name in names:
        registry.register(DeclaredTool(name))
    return compile_authority(registry, AuthorityInputs(mode=ToolMode.chat_safe))


async def test_it_is_entered_once_whoever_enters_it(store):
    one, other = authority("a"), authority("a", "b")
    second = open_store(store.config)
    books = [AuthorityLedger(store.log), AuthorityLedger(second.log)]
    await asyncio.gather(*(book.enter(each) for book in books for each in (one, other, one)))
    with store.database.reading() as connection:
        events = [stored.event() for stored in read_stream(connection, "system")]
        assert sorted(event.digest for event in events) == sorted([one.digest, other.digest])
        found = find_authority(connection, one.digest[:10])
        assert (found["digest"], found["genuine"]) == (one.digest, True)
        assert found["verdicts"] == [["a", "allowed"]]
        assert find_authority(connection, "") is None
        assert verify(connection).ok
    second.close()


async def test_an_entry_that_was_changed_is_found(store):
    one = authority("a")
    await AuthorityLedger(store.log).enter(one)
    store.execute("UPDATE events SET facts = replace(facts, 'allowed', 'ALLOWED')")
    with store.database.reading() as connection:
        assert verify(connection).faults
        assert find_authority(connection, one.digest)["genuine"] is False
