"""Finding notes."""

import time
from datetime import UTC, date, datetime

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from interlock.memory.authorship import AuthorLines, NoteAuthor
from interlock.memory.note_directory import NoteDirectory
from interlock.memory.note_writer import NoteWriter
from interlock.memory.search import MAX_ALSO, SNIPPET_CHARS, MemorySearch
from tests.harness.case_tables import each_row
from tests.integration.memory.conftest import SECRET, MemoryHarness, nothing

NOTES = {
    "kitchen.md": "# Office kitchen\n\nThe espresso machine needs descaling every two months.\n",
    "ops/deploy.md": "# Deploy\n\n## Rollback\n\nCall handle_message in AgentLoop, TOOL_ALLOWED_ROOTS.\n",
    "ops/database.md": "# Database\n\nThe configuration of the connection pool is in pool.toml.\n",
    "reise.md": "# Reise nach Zürich\n\nDas Hotel an der Bahnhofstraße hat eine Waschküche.\n",
    "咖啡.md": "# 咖啡店\n\n我们上次去的咖啡店叫蓝瓶，在南京西路，周一休息。\n",
    "サーバー.md": "# サーバーの設定\n\nデータベースの接続先を変更した。\n",
    "ru.md": "# Договор\n\nПароль от сейфа хранится у Марии.\n",
    "ko.md": "# 서울 여행\n\n서울에서 책을 샀다.\n",
    "th.md": "# ร้านกาแฟ\n\nร้านกาแฟใกล้สถานี\n",
}


@pytest.fixture
def filled(memory: MemoryHarness) -> MemoryHarness:
    for path, text in NOTES.items():
        memory.write(path, text)
    return memory


@each_row(
    ("query", "path"),
    [
        ("espresso machine", "kitchen.md"),
        ("ESPRESSO", "kitchen.md"),
        ("how often must the espresso machine be descaled?", "kitchen.md"),
        ("handle_message", "ops/deploy.md"),
        ("handleMessage", "ops/deploy.md"),
        ("agent loop", "ops/deploy.md"),
        ("allowed roots", "ops/deploy.md"),
        ("rollback", "ops/deploy.md"),
        ("ops deploy", "ops/deploy.md"),
        ("config pool", "ops/database.md"),
        ("pool.toml", "ops/database.md"),
        ("zurich", "reise.md"),
        ("Bahnhofstrasse", "reise.md"),
        ("Küche waschen", "reise.md"),
        ("咖啡店叫什么名字", "咖啡.md"),
        ("南京", "咖啡.md"),
        ("瓶", "咖啡.md"),
        ("データベース", "サーバー.md"),
        ("サーバ", "サーバー.md"),
        ("接続先", "サーバー.md"),
        ("пароль", "ru.md"),
        ("договора", "ru.md"),
        ("서울", "ko.md"),
        ("책", "ko.md"),
        ("กาแฟ", "th.md"),
    ],
)
def test_a_note_is_found_by_what_it_says(filled, query, path):
    assert filled.paths(query)[0] == path


@each_row(
    ("query", "path"),
    [
        ("expresso", "kitchen.md"),
        ("espreso", "kitchen.md"),
        ("esprresso", "kitchen.md"),
        ("epsresso", "kitchen.md"),
        ("dscaling", "kitchen.md"),
        ("zürivh", "reise.md"),
        ("Wasschküche", "reise.md"),
        ("пороль", "ru.md"),
        ("parolь", None),
        ("xyzzyplugh", None),
    ],
)
def test_one_wrong_letter_does_not_hide_a_note(filled, query, path):
    assert filled.paths(query)[:1] == ([path] if path else [])


def test_a_corrected_word_is_told(filled):
    assert filled.search("expresso").corrected == {"expresso": "espresso"}
    assert filled.search("espresso").corrected == {}


def test_the_word_itself_comes_before_its_other_forms(memory):
    memory.write("exact.md", "we config it by hand, among many other words that stand here as well")
    memory.write("longer.md", "configuration configuration configuration")
    memory.write("typo.md", "konfig")
    assert memory.paths("config")[:2] == ["exact.md", "longer.md"]


def test_a_title_counts_more_than_a_mention(memory):
    memory.write("mention.md", "# Diary\n\nWe spoke of invoices, and of much else that day.\n")
    memory.write("titled.md", "# Invoices\n\nThey are paid on Fridays by the people upstairs.\n")
    assert memory.paths("invoices") == ["titled.md", "mention.md"]


def test_rare_words_count_more_than_common_ones(memory):
    for number in range(30):
        memory.write(f"common{number}.md", "the project meeting notes of the team, project meeting")
    memory.write("rare.md", "the zeppelin was mentioned in passing at a project")
    assert memory.paths("project meeting zeppelin")[0] == "rare.md"


def test_words_side_by_side_count_more(memory):
    memory.write("apart.md", "blue things are here and there, but far from it all stood one more bottle")
    memory.write(
        "beside.md", "here and there one more thing, far from it all stood the blue bottle, it did"
    )
    assert memory.paths("blue bottle")[0] == "beside.md"


def test_what_is_newer_comes_first_where_all_else_is_equal(memory):
    for day in ("2024-01-05", "2026-11-01", "2025-06-07"):
        memory.write(f"{day}.md", "the boiler was repaired")
    search = MemorySearch(memory.index, today=lambda: date(2026, 11, 15))
    found = search.search("boiler", 5, nothing).hits
    assert [hit.day for hit in found] == ["2026-11-01", "2025-06-07", "2024-01-05"]


def test_one_note_does_not_crowd_out_the_rest(memory):
    memory.write(
        "long.md", "".join(f"## Part {n}\n\nthe boiler, the boiler, the boiler\n\n" for n in range(40))
    )
    for number in range(4):
        memory.write(f"other{number}.md", f"the boiler is mentioned once here, among other things {number}")
    found = memory.search("boiler").hits
    assert found[0].path == "long.md"
    assert len({hit.path for hit in found}) == 5
    assert 0 < len(found[0].also_lines) <= MAX_ALSO


def test_words_in_different_parts_of_a_note_speak_for_it_together(memory):
    memory.write("both.md", "# House\n\n## Roof\n\nslates\n\n## Cellar\n\nbarrels\n")
    memory.write("one.md", "# Yard\n\nslates slates\n")
    assert memory.paths("slates barrels")[0] == "both.md"


def test_a_hit_tells_where_it_is(filled):
    (hit, *_) = filled.search("AgentLoop").hits
    assert (hit.path, hit.line, hit.heading) == ("ops/deploy.md", 5, "Deploy > Rollback")
    assert "handle_message in AgentLoop" in hit.snippet
    line = NOTES[hit.path].splitlines()[hit.line - 1]
    assert "AgentLoop" in line


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_no_more_hits_than_asked_for(memory, limit):
    for number in range(60):
        memory.write(f"{number}.md", f"the boiler {number} " + "filler " * 200)
    found = memory.search("boiler", limit).hits
    assert len(found) == limit
    assert all(len(hit.snippet) <= SNIPPET_CHARS + 2 for hit in found)


def test_a_word_that_everything_has_still_finds_the_best(memory):
    for number in range(700):
        memory.write(f"{number:03}.md", f"boiler, among other words of note {number}")
    memory.write("zz.md", "# Boiler\n\nboiler boiler boiler")
    assert memory.paths("boiler")[0] == "zz.md"
    assert memory.paths("boiler 433")[0] == "433.md"


def test_a_query_without_words_finds_nothing_and_says_so(filled):
    for query in ("", "   ", "?!", "\0", "🎉", '"" AND'[:2]):
        found = filled.search(query)
        assert (found.hits, found.had_words) == ((), False)


HOSTILE = [
    '"', "'", "''", '""', "*", "a*", "^a", "-a", "a -b", "NEAR(a)", "a AND", "OR", "NOT a", "(", ")", "a:b",
    "words:a", "{a b}: c", "a\0b", "\\", "a & b | !c", "a <-> b", "a:*", "'a':*", "§a", "%", "_", "; DROP",
    "\ud800", "\u202e", "a" * 100_000, "é" * 100_000, "字" * 100_000, "a " * 50_000, "x_y-z." * 20_000,
    "\ufffe\uffff", "a\u0301" * 1000, "?" * 100_000, "$1 %s ? {x}",
]  # fmt: skip


@each_row("query", HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
def test_no_hostile_query_errs_or_takes_long(filled, query):
    filled.search("warm")
    began = time.process_time()
    filled.search(query)
    assert time.process_time() - began < 2


@each_row(
    ("query", "paths"),
    [
        ("boiler -chimney", {"both.md", "boiler.md"}),
        ("boiler NOT chimney", {"both.md", "boiler.md"}),
        ('"boiler chimney"', {"both.md", "boiler.md"}),
        ("boiler AND chimney", {"both.md", "boiler.md"}),
        ("NEAR(boiler chimney, 1)", {"both.md", "boiler.md"}),
        ("^chimney", {"both.md"}),
        ("endings:boiler", {"both.md", "boiler.md"}),
        ("{head} : boiler", {"both.md", "boiler.md"}),
        ("- {words} : boiler", {"both.md", "boiler.md"}),
        ('boiler" OR "zeppelin', {"both.md", "boiler.md", "zeppelin.md"}),
        ("zep*", {"zeppelin.md"}),
        ("rank", set()),
        ("\u00a7reliob", set()),
        ("reliob", set()),
    ],
)
def test_the_syntax_of_fts5_means_nothing_in_a_query(memory, query, paths):
    memory.write("both.md", "the boiler, far from it in this long sentence there stands the chimney")
    memory.write("boiler.md", "the boiler")
    memory.write("zeppelin.md", "the zeppelin")
    found = memory.search(query, 10)
    assert {hit.path for hit in found.hits} == paths
    assert not found.problem


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
@example("NEAR(")
@example("a\x00'\"b")
def test_no_query_ever_errs(filled, query):
    for asked in (query, f"espresso {query} machine"):
        found = filled.search(asked)
        assert (found.problem, found.notes) == ("", len(NOTES))
        assert {hit.path for hit in found.hits} <= set(NOTES)
    assert found.had_words
    assert filled.is_sound()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.text())
def test_no_note_ever_errs(memory, text):
    memory.folder.mkdir(parents=True, exist_ok=True)
    (memory.folder / "any.md").write_text(text, errors="replace")
    memory.search("a")
    assert memory.is_sound()


def test_a_secret_in_a_note_is_neither_in_the_index_nor_in_results(memory):
    aws = "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzzEXAMPLEK"
    text = f"# Keys\n\nthe key {SECRET} opens it\n\n{aws}\n"
    memory.write(f"about-{SECRET}.md", text)
    found = memory.search("key opens keys")
    assert "***REDACTED***" in found.hits[0].snippet
    assert SECRET not in repr(found)
    files = [path.read_bytes() for path in memory.index.path.parent.iterdir()]
    for secret in (SECRET.encode(), b"wjalrxutn", b"wjalrxutn"[::-1]):
        assert not any(secret in data.lower() for data in files)


def test_a_secret_in_an_author_line_is_masked_although_it_became_known_later(memory):
    authors = AuthorLines(memory.state_dir / "note-authors.key")
    writer = NoteWriter(NoteDirectory(memory.folder), str, authors)
    author = NoteAuthor("memory_append", person=SECRET)
    entry = writer.entry("the boiler", "House", datetime(2026, 1, 2, tzinfo=UTC), author)
    writer.append(entry, nothing, nothing)
    (hit,) = memory.search("boiler").hits
    assert hit.author is not None
    assert hit.snippet == "the boiler"
    assert SECRET not in repr(hit)
    assert not any(SECRET.encode() in path.read_bytes() for path in memory.index.path.parent.iterdir())


def test_links_out_of_the_folder_are_never_read(filled, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("the zeppelin password")
    (filled.folder / "link.md").symlink_to(tmp_path / "outside" / "secret.md")
    (filled.folder / "linked").symlink_to(tmp_path / "outside")
    assert filled.paths("zeppelin") == []
    assert "zeppelin" not in repr(filled.rows("SELECT text FROM passages"))


def test_a_word_is_looked_up_quickly_among_many(memory):
    words = [f"{a}{b}{c}ing" for a in "abcdefghij" for b in "klmnopqrst" for c in ("uv", "wx", "yz", "uw")]
    for number in range(50):
        memory.write(f"{number}.md", " ".join(f"{word}{number}" for word in words))
    memory.search("warm")
    assert memory.rows("SELECT count(*) FROM vocabulary")[0][0] > 40_000
    began = time.process_time()
    found = memory.search("akuvign7")
    assert found.corrected == {"akuvign7": "akuving7"}
    assert time.process_time() - began < 2


def test_a_long_note_does_not_keep_the_others_out(memory):
    """It has the word in more passages than are ranked, each better than the others' by length."""
    days = "\n".join(f"## day {day}\n\nwe met about the project whale again {day}\n" for day in range(400))
    memory.write("log.md", f"# Log\n{days}")
    memory.write(
        "other.md", "# Other\n\nThe whale decision: blue, after a long discussion of colours and shapes.\n"
    )
    assert {hit.path for hit in memory.search("whale", 5).hits} == {"log.md", "other.md"}
