"""The rows of servers, tools and classes, on both databases."""

import asyncio

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import UserError
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.definition import ToolClassification, check_listing, make_definition
from interlock.tools.mcp.repository import McpRepository
from interlock.tools.mcp.server import McpServerConfig
from interlock.tools.tool import Effect, ToolGroup
from tests.harness.store import StoreHarness

SERVER = McpServerConfig(id="a", command=("/bin/true",))


def listing(*tools: tuple[str, str]):
    found = [make_definition(name, text, {"type": "object"}, None, {}) for name, text in tools]
    return check_listing("a", found, Redactor())


def classed(digest: str) -> ToolClassification:
    return ToolClassification(ToolGroup.mcp, Effect.read, frozenset({ToolMode.coding}), digest, by="ann")


@pytest.fixture
async def book(store: StoreHarness) -> McpRepository:
    made = McpRepository(store.database, store.log)
    await made.add(SERVER, who="ann")
    return made


async def test_a_listing_is_stored_once_and_its_changes_are_told(book: McpRepository, store: StoreHarness):
    await book.record_listing("a", listing(("x", "one"), ("y", "one")))
    version = (await book.catalog()).version
    await book.record_listing("a", listing(("x", "one"), ("y", "one")))
    assert (await book.catalog()).version == version
    digest = (await book.catalog()).server("a").tools["x"].hash
    other = (await book.catalog()).server("a").tools["y"].hash
    await book.set_classes(SERVER, {"x": classed(digest), "y": classed(other)}, who="ann")
    await book.record_listing("a", listing(("x", "two"), ("z", "one")))
    tools = (await book.catalog()).server("a").tools
    assert {name: tool.state for name, tool in tools.items()} == {
        "x": "changed",
        "y": "gone",
        "z": "unclassed",
    }
    await book.record_listing("a", listing(("x", "one"), ("y", "one")))
    tools = (await book.catalog()).server("a").tools
    assert {name: tool.state for name, tool in tools.items()} == {"x": "classed", "y": "classed"}
    query = "SELECT kind FROM events WHERE kind LIKE 'mcp.%' ORDER BY seq"
    rows = await store.database.read(lambda db: db.query(query))
    kinds = [row[0] for row in rows]
    assert kinds.count("mcp.tools_listed") == 3
    assert kinds.count("mcp.tool_changed") == 2


async def test_a_class_of_another_definition_is_refused(book: McpRepository):
    await book.record_listing("a", listing(("x", "one")))
    with pytest.raises(UserError, match="changed in the meantime"):
        await book.set_classes(SERVER, {"x": classed("0" * 64)}, who="ann")
    with pytest.raises(UserError, match="no tool"):
        await book.set_classes(SERVER, {"nothing": classed("0" * 64)}, who="ann")


async def test_another_process_sees_every_change(book: McpRepository, store: StoreHarness):
    other = McpRepository(store.database, store.log)
    assert set((await other.catalog()).servers) == {"a"}
    await book.record_listing("a", listing(("x", "one")))
    assert set((await other.catalog()).server("a").tools) == {"x"}
    await book.remove("a", who="ann")
    assert (await other.catalog()).servers == {}
    await book.record_listing("a", listing(("x", "one")))
    assert (await other.catalog()).servers == {}


async def test_of_two_who_add_the_same_one_is_refused(store: StoreHarness):
    books = [McpRepository(store.database, store.log) for _ in range(2)]
    done = await asyncio.gather(*(book.add(SERVER, who="ann") for book in books), return_exceptions=True)
    assert sorted(type(each) for each in done if each is not None) == [UserError]
    assert len((await books[0].catalog()).servers) == 1
