"""Stored settings on both databases: field by field, versioned, told (S4-D, S4-E2, S4-K, S4-T7, S4-UX4)."""

import asyncio
import json
import re

import pytest

from interlock.config.modes import Effect, ToolGroup
from interlock.core.errors import InvalidStoredSettings
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.read import read_stream
from interlock.sessions.runtime_settings import StoredSettings, UnreadableSettings, field_paths, patch_for
from tests.harness.store import open_store


async def update(store, path, value):
    return (await store.settings.update(patch_for(path, value), who="local:ann")).settings.tools


async def test_the_defaults_are_those_of_the_specification(store):
    current = await store.settings.current()
    tools = current.settings.tools
    assert current.version == 0
    assert tools.fs.enabled is True
    assert (tools.fs.max_read_bytes, tools.fs.max_write_bytes) == (524288, 2097152)
    assert tools.mcp.enabled is False


async def test_a_change_is_stored_told_and_survives_a_restart(store):
    await update(store, "tools.fs.max_read_bytes", 1000)
    again = open_store(store.config)
    current = await again.settings.current()
    assert (current.version, current.settings.tools.fs.max_read_bytes) == (1, 1000)
    again.close()
    with store.database.reading() as connection:
        (event,) = [stored.event() for stored in read_stream(connection, SYSTEM_STREAM)]
    assert (event.who, event.version) == ("local:ann", 1)
    assert event.changes == {"tools.fs.max_read_bytes": [524288, 1000]}


async def test_only_what_is_named_changes(store):
    await update(store, "tools.fs.enabled", False)
    await update(store, "tools.mcp.enabled", True)
    tools = await update(store, "tools.fs", {"max_write_bytes": 5})
    assert (tools.fs.enabled, tools.mcp.enabled) == (False, True)
    assert (tools.fs.max_read_bytes, tools.fs.max_write_bytes) == (524288, 5)


@pytest.mark.parametrize(
    "nothing", [{}, {"tools": {}}, {"tools": None}, {"tools": {"fs": {"max_read_bytes": None}}}]
)
async def test_missing_and_null_change_nothing(store, nothing):
    await update(store, "tools.fs.max_read_bytes", 900_000)
    version = await store.settings.update(nothing, who="x")
    assert version.version == 1
    assert version.settings.tools.fs.max_read_bytes == 900_000


async def test_an_emptied_limit_returns_to_its_default(store):
    await update(store, "tools.fs.max_read_bytes", 7)
    assert (await update(store, "tools.fs.max_read_bytes", "")).fs.max_read_bytes == 524288
    await update(store, "tools.fs.enabled", False)
    assert (await update(store, "tools.fs.enabled", "")).fs.enabled is True


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"tool": {}}, "did you mean tools"),
        ({"tools": {"fs": {"max_read_byte": 1}}}, "did you mean tools.fs.max_read_bytes"),
        ({"tools": {"fs": {"enabled": "false"}}}, "tools.fs.enabled"),
        ({"tools": {"fs": {"max_read_bytes": 0}}}, "tools.fs.max_read_bytes"),
        ({"tools": {"fs": {"max_read_bytes": -1}}}, "tools.fs.max_read_bytes"),
        ({"tools": {"fs": {"max_read_bytes": 1.5}}}, "tools.fs.max_read_bytes"),
        ({"tools": {"fs": {"max_read_bytes": 10**30}}}, "tools.fs.max_read_bytes"),
        ({"tools": {"fs": True}}, "give an object"),
        ({"tools": {"denied_tools": "bash"}}, "tools.denied_tools"),
        ({"tools": {"denied_tools": {"a": 1}}}, "tools.denied_tools"),
        (
            {"tools": {"denied_tools": ["effect:execute"]}},
            "tools.denied_tools: 'effect:execute' names no effect of tools; did you mean effect:exec?",
        ),
        ({"tools": {"shell": {"ports": [0]}}}, "tools.shell.ports"),
        ({"tools": {"shell": {"unknown": "perhaps"}}}, "tools.shell.unknown"),
    ],
)
async def test_a_wrong_change_is_refused_whole(store, patch, text):
    with pytest.raises(InvalidStoredSettings) as raised:
        await store.settings.update(patch, who="x")
    assert text in str(raised.value)
    assert (await store.settings.current()).version == 0


async def test_one_wrong_field_spoils_the_whole_change(store):
    with pytest.raises(InvalidStoredSettings):
        await store.settings.update({"tools": {"fs": {"max_write_bytes": 5, "max_read_bytes": 0}}}, who="x")
    assert (await store.settings.current()).settings.tools.fs.max_write_bytes == 2097152


async def test_an_old_row_without_a_field_gets_its_default(store):
    store.execute(
        "INSERT INTO settings_versions (version, document, changed_by, time_us) VALUES (1, ?, 'x', 0)",
        '{"tools": {"fs": {"enabled": false, "max_read_bytes": null}, "gone": {"a": 1}}, "theme": "dark"}',
    )
    current = await store.settings.current()
    assert current.settings.tools.fs.enabled is False
    assert current.settings.tools.fs.max_read_bytes == 524288
    assert current.settings.tools.memory.enabled is True


@pytest.mark.parametrize("document", ["{}", '{"theme": "dark"}', '{"tools": null}', '{"tools": {}}'])
async def test_settings_from_before_there_were_tools_have_the_defaults(store, document):
    """S4-E2."""
    store.execute(
        "INSERT INTO settings_versions (version, document, changed_by, time_us) VALUES (1, ?, 'x', 0)",
        document,
    )
    assert (await store.settings.current()).settings == StoredSettings()


async def test_a_change_drops_nothing_that_it_does_not_name(store):
    """S4-K2: also what this version knows nothing of."""
    store.execute(
        "INSERT INTO settings_versions (version, document, changed_by, time_us) VALUES (1, ?, 'x', 0)",
        '{"tools": {"fs": {"max_read_bytes": 77}, "later": {"a": 1}}, "theme": "dark"}',
    )
    await update(store, "tools.mcp.enabled", True)
    newest = store.query("SELECT document FROM settings_versions ORDER BY version DESC LIMIT 1")
    document = json.loads(newest[0][0])
    assert document.get("theme") == "dark"
    assert document["tools"].get("later") == {"a": 1}
    assert (document["tools"]["fs"]["max_read_bytes"], document["tools"]["mcp"]["enabled"]) == (77, True)


async def test_changes_made_at_once_all_count(store):
    other = open_store(store.config)
    paths = ["tools.fs.max_read_bytes", "tools.fs.max_write_bytes"]
    await asyncio.gather(
        *(update(part, path, 11) for part, path in zip((store, other), paths, strict=True))
    )
    current = await store.settings.current()
    assert current.version == 2
    assert (current.settings.tools.fs.max_read_bytes, current.settings.tools.fs.max_write_bytes) == (11, 11)
    other.close()


async def test_many_changes_from_two_processes_all_count(store):
    """The head is locked, not only remembered: on PostgreSQL nobody builds on an old version."""
    other = open_store(store.config)

    async def change(part, path):
        for number in range(1, 31):
            await update(part, path, number)

    await asyncio.gather(
        change(store, "tools.fs.max_read_bytes"), change(other, "tools.fs.max_write_bytes")
    )
    current = await store.settings.current()
    assert current.version == 60
    assert (current.settings.tools.fs.max_read_bytes, current.settings.tools.fs.max_write_bytes) == (30, 30)
    other.close()


async def test_saving_the_same_again_makes_no_version(store):
    await update(store, "tools.fs.enabled", False)
    await update(store, "tools.fs.enabled", False)
    assert (await store.settings.current()).version == 1


def test_every_field_has_a_dotted_name():
    assert "tools.fs.enabled" in field_paths()
    assert "tools.denied_tools" in field_paths()


async def test_a_preview_is_what_an_update_would_store_and_stores_nothing(store):
    await update(store, "tools.fs.enabled", False)
    patch = {"tools": {"fs": {"max_read_bytes": 9}, "denied_tools": ["bash", "a"]}}
    previewed = await store.settings.preview(patch)
    assert (previewed.tools.fs.enabled, previewed.tools.fs.max_read_bytes) == (False, 9)
    assert (await store.settings.current()).version == 1
    assert store.query("SELECT count(*) FROM events WHERE stream = 'system'") == [(1,)]
    assert (await store.settings.update(patch, who="x")).settings == previewed


@pytest.mark.parametrize(
    "patch", [{"tool": {}}, {"tools": {"fs": {"max_read_bytes": 0}}}, {"a": "x" * 70_000}]
)
async def test_a_preview_refuses_what_an_update_refuses_in_the_same_words(store, patch):
    with pytest.raises(InvalidStoredSettings) as previewed:
        await store.settings.preview(patch)
    with pytest.raises(InvalidStoredSettings) as updated:
        await store.settings.update(patch, who="x")
    assert str(previewed.value) == str(updated.value)


@pytest.mark.parametrize(
    "denied", ['["group:gone"]', '["ask_user", "a b"]', '"bash"'], ids=["renamed", "invalid", "no list"]
)
async def test_a_change_of_settings_that_cannot_be_read_opens_only_what_it_names(store, denied):
    """A later version may have renamed a group: what it denied is not known, so everything is denied."""
    store.execute(
        "INSERT INTO settings_versions (version, document, changed_by, time_us) VALUES (1, ?, 'x', 0)",
        '{"tools": {"mcp": {"allowed_servers": ["a"]}, "denied_tools": ' + denied + "}}",
    )
    with pytest.raises(UnreadableSettings, match="denied_tools"):
        await store.settings.current()
    tools = await update(store, "tools.fs.enabled", True)
    for effect in Effect:
        assert tools.denial_of(["current_time"], ToolGroup.world, effect)
    assert tools.mcp.allowed_servers == frozenset()
    assert (await update(store, "tools.denied_tools", "")).denied_tools == frozenset()


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("tools.fs.enabled", "yes", "tools.fs.enabled: must be true or false"),
        ("tools.fs.max_read_bytes", True, "tools.fs.max_read_bytes: must be a whole number"),
        ("tools.fs.max_read_bytes", 0, "tools.fs.max_read_bytes: must be greater than 0"),
        ("tools.shell.ports", [80, "x"], "tools.shell.ports[1]: must be a whole number"),
        ("tools.shell.unknown", "no", "tools.shell.unknown: must be one of 'allow', 'ask' or 'deny'"),
        ("tools.denied_tools", "bash", "tools.denied_tools: must be a list"),
        ("tools.max_timeout_seconds", "1", "tools.max_timeout_seconds: must be a number"),
    ],
)
async def test_a_wrong_value_is_described_for_a_person(store, path, value, problem):
    with pytest.raises(InvalidStoredSettings, match=f"^{re.escape(problem)}$"):
        await update(store, path, value)
