"""A store to attack, and the question whether it still holds."""

from interlock.log.kinds import SessionRenamed
from interlock.wiring.projections import verify
from tests.harness.store import StoreHarness


def renamed(title: str = "x") -> SessionRenamed:
    return SessionRenamed(who="test", title=title)


async def new_session(store: StoreHarness) -> str:
    return (await store.sessions.create(opened_by="test")).id


def faults(store: StoreHarness, **options) -> list[str]:
    with store.database.reading() as connection:
        return [str(fault) for fault in verify(connection, **options).faults]
