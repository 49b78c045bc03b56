"""Sessions found by their titles and by what was said, on both databases."""

import pytest

from interlock.core.errors import UserError
from interlock.redaction.redactor import MARK
from interlock.sessions import search
from interlock.sessions.models import Role
from interlock.sessions.search import search_sessions, snippet
from tests.harness.case_tables import each_row
from tests.harness.store import StoreHarness


async def talk(store: StoreHarness, *said: str, title: str = "", identity: str | None = None) -> str:
    session = await store.sessions.create(opened_by="test", title=title, session_id=identity)
    for number, text in enumerate(said):
        role = Role.assistant if number % 2 else Role.user
        await store.sessions.append_message(session.id, role, text)
    return session.id


def found(store: StoreHarness, query: str, limit: int = 20) -> list[tuple[str, int | None, str]]:
    with store.database.reading() as connection:
        matches = search_sessions(connection, query, limit=limit)
    return [(match.session.id, match.seq, match.snippet) for match in matches]


async def test_titles_and_messages_are_found_the_newest_first(store):
    await talk(store, "where is the Harbour?", "no idea", identity="old")
    await talk(store, "x", title="HARBOUR plans", identity="new")
    assert found(store, "harbour") == [
        ("new", None, "HARBOUR plans"),
        ("old", 2, "where is the Harbour?"),
    ]
    assert found(store, "no idea") == [("old", 3, "no idea")]
    assert found(store, "nowhere") == []
    assert found(store, "harbour", limit=1) == [("new", None, "HARBOUR plans")]


async def test_words_are_found_wherever_they_stand_in_one_message(store):
    await talk(store, "The boat lies in the **old** harbour", "a harbour", "an old boat", identity="a")
    assert [seq for _, seq, _ in found(store, "harbour old")] == [2]
    assert [seq for _, seq, _ in found(store, "old  Boat")] == [4, 2]
    assert found(store, "harbour car") == []
    long = "the quick brown fox jumps over the lazy dog and away into the woods"
    await talk(store, long, identity="b")
    assert [place[:2] for place in found(store, long)] == [("b", 2)]
    assert found(store, f"{long} again") == []


async def test_letters_of_any_script_are_found_in_upper_and_lower_case(store):
    await talk(store, "Die Straße nach KÖLN", "Привет МИР", "你好世界", identity="a")
    assert [seq for _, seq, _ in found(store, "köln")] == [2]
    assert [seq for _, seq, _ in found(store, "мир")] == [3]
    assert [seq for _, seq, _ in found(store, "好世")] == [4]
    assert found(store, "kölm") == []


async def test_what_is_special_in_sql_is_looked_for_as_it_is(store):
    await talk(store, "100% sure", "a_b", "wow!", r"c:\dir", "it's", identity="a")
    await talk(store, "100 sure, aXb, wow", identity="b")
    for text, seq in (("100%", 2), ("a_b", 3), ("wow!", 4), (r"c:\d", 5), ("it's", 6), (".", None)):
        assert [place[:2] for place in found(store, text)] == ([("a", seq)] if seq else []), text
    assert found(store, "%") == [("a", 2, "100% sure")]


async def test_what_tools_said_is_not_searched(store):
    session = await talk(store, "hello")
    await store.sessions.append_message(session, Role.tool, "needle", tool_call_id="c")
    assert found(store, "needle") == []


async def test_a_session_has_a_few_matches_and_leaves_room_for_others(store):
    await talk(store, "needle old", identity="old")
    await talk(store, *(f"needle {number}" for number in range(9)), title="needles", identity="new")
    places = found(store, "needle")
    assert [place[:2] for place in places] == [
        *(("new", None), ("new", 10), ("new", 9), ("new", 8)),
        ("old", 2),
    ]


async def test_what_was_deleted_is_never_found_and_what_was_archived_is(store):
    gone = await talk(store, "needle", title="needle")
    kept = await talk(store, "needle")
    await store.delete(gone, who="test")
    await store.sessions.archive(kept, who="test")
    assert [place[:2] for place in found(store, "needle")] == [(kept, 2)]


async def test_nothing_is_looked_for_where_nothing_is_asked(store):
    await talk(store, "hello")
    assert found(store, "") == []
    assert found(store, "  \n") == []
    assert found(store, "\x00\ud800") == []
    with pytest.raises(UserError, match="200"):
        found(store, "x" * 201)


async def test_messages_are_read_up_to_a_bound_and_titles_beyond_it(store, monkeypatch):
    await talk(store, "needle", title="needle old", identity="old")
    await talk(store, "needle", "x", identity="new")
    monkeypatch.setattr(search, "MAX_ROWS", 4)
    assert [place[:2] for place in found(store, "needle")] == [("new", 2), ("old", None)]


async def test_more_sessions_than_are_read_at_once_are_all_looked_through(store, monkeypatch):
    monkeypatch.setattr(search, "_SESSIONS_AT_ONCE", 2)
    for number in range(5):
        await talk(store, "needle", identity=f"s{number}")
    assert [place[0] for place in found(store, "needle")] == ["s4", "s3", "s2", "s1", "s0"]
    monkeypatch.setattr(search, "MAX_SESSIONS", 4)
    assert len(found(store, "needle")) == 4


def test_a_snippet_shows_what_stands_around_on_one_line():
    text = f"{'a ' * 100}the\n\nneedle {'b ' * 100}"
    at = text.index("needle")
    shown = snippet(text, (at, at + 6))
    assert "the needle b" in shown
    assert (shown[0], shown[-1]) == ("…", "…")
    assert 100 < len(shown) <= search.SNIPPET_CHARS + 2
    assert snippet("a needle", (2, 8)) == "a needle"


@each_row("before", range(60))
def test_a_mark_for_a_secret_is_never_cut(before):
    text = f"{MARK}{'x' * before} needle {'y' * (before + 40)}{MARK}{'z' * 50}"
    at = text.index("needle")
    shown = snippet(text, (at, at + 6))
    assert shown.replace(MARK, "").count("*") == 0
    assert "REDACTED" not in shown.replace(MARK, "")
