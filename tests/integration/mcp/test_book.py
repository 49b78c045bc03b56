"""The rows of servers, tools and classes, on both databases."""

import asyncio

import pytest

from interlock.config.modes import ToolMode
from interlock.infra.errors import PersonError
from interlock.redaction.redactor import Redactor
from interlock.tools.base import Effect, ToolGroup
from interlock.tools.mcp.book import ServerBook
from interlock.tools.mcp.classes import ToolClass
from interlock.tools.mcp.definitions import definition_of, listed_tools
from interlock.tools.mcp.servers import Server
from tests.harness.store import StoreHarness

SERVER = Server(id="a", command=("/bin/true",))


def listing(*tools: tuple[str, str]):
    found = [definition_of(name, text, {"type": "object"}, None, {}) for name, text in tools]
    return listed_tools("a", found, Redactor())


def classed(digest: str) -> ToolClass:
    return ToolClass(ToolGroup.mcp, Effect.read, frozenset({ToolMode.coding}), digest, by="ann")


@pytest.fixture
async def book(store: StoreHarness) -> ServerBook:
    made = ServerBook(store.database, store.log)
    await made.add(SERVER, who="ann")
    return made


async def test_a_listing_is_stored_once_and_its_changes_are_told(book: ServerBook, store: StoreHarness):
    await book.seen("a", listing(("x", "one"), ("y", "one")))
    version = (await book.shelf()).version
    await book.seen("a", listing(("x", "one"), ("y", "one")))
    assert (await book.shelf()).version == version
    digest = (await book.shelf()).server("a").tools["x"].hash
    await book.give_class("a", "x", classed(digest), who="ann")
    await book.give_class("a", "y", classed((await book.shelf()).server("a").tools["y"].hash), who="ann")
    await book.seen("a", listing(("x", "two"), ("z", "one")))
    tools = (await book.shelf()).server("a").tools
    assert {name: tool.state for name, tool in tools.items()} == {
        "x": "changed",
        "y": "gone",
        "z": "unclassed",
    }
    await book.seen("a", listing(("x", "one"), ("y", "one")))
    tools = (await book.shelf()).server("a").tools
    assert {name: tool.state for name, tool in tools.items()} == {"x": "classed", "y": "classed"}
    query = "SELECT kind FROM events WHERE kind LIKE 'mcp.%' ORDER BY seq"
    rows = await store.database.read(lambda db: db.query(query))
    kinds = [row[0] for row in rows]
    assert kinds.count("mcp.tools_listed") == 3
    assert kinds.count("mcp.tool_changed") == 2


async def test_a_class_of_another_definition_is_refused(book: ServerBook):
    await book.seen("a", listing(("x", "one")))
    with pytest.raises(PersonError, match="changed in the meantime"):
        await book.give_class("a", "x", classed("0" * 64), who="ann")
    with pytest.raises(PersonError, match="no tool"):
        await book.give_class("a", "nothing", classed("0" * 64), who="ann")


async def test_another_process_sees_every_change(book: ServerBook, store: StoreHarness):
    other = ServerBook(store.database, store.log)
    assert set((await other.shelf()).servers) == {"a"}
    await book.seen("a", listing(("x", "one")))
    assert set((await other.shelf()).server("a").tools) == {"x"}
    await book.remove("a", who="ann")
    assert (await other.shelf()).servers == {}
    await book.seen("a", listing(("x", "one")))
    assert (await other.shelf()).servers == {}


async def test_of_two_who_add_the_same_one_is_refused(store: StoreHarness):
    books = [ServerBook(store.database, store.log) for _ in range(2)]
    done = await asyncio.gather(*(book.add(SERVER, who="ann") for book in books), return_exceptions=True)
    assert sorted(type(each) for each in done if each is not None) == [PersonError]
    assert len((await books[0].shelf()).servers) == 1
