"""A store to attack, and the question whether it still holds."""

from interlock.events.catalog import SessionRenamed
from interlock.events.verify import verify
from tests.conftest import Store


def renamed(title: str = "x") -> SessionRenamed:
    return SessionRenamed(who="test", title=title)


async def new_session(store: Store) -> str:
    return (await store.sessions.create(opened_by="test")).id


def faults(store: Store, **options) -> list[str]:
    with store.database.reading() as connection:
        return [str(fault) for fault in verify(connection, **options).faults]
