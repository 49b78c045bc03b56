"""What a tool wrote has an author, what a person wrote or edited has none, and no text fakes one."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from interlock.memory.authorship import AuthorLines, NoteAuthor, describe_author, parse_author
from interlock.memory.passages import split_note

AUTHOR = NoteAuthor("memory_append", "scribe", "ada", "telegram", "task_1")
SAID = describe_author("2026-11-15 09:30 +01:00", AUTHOR)


@pytest.fixture
def authors(tmp_path: Path) -> AuthorLines:
    return AuthorLines(tmp_path / "state" / "key")


def entry(authors: AuthorLines, content: str, said: str = SAID) -> str:
    return f"## 2026-11-15 09:30 +01:00\n\n{authors.line(said, content)}\n\n{content}\n"


def test_an_entry_and_nothing_beside_it_has_its_author(authors):
    text = "# House\n\nby hand\n\n" + entry(authors, "one\n\ntwo") + "\nby hand as well\n"
    found = authors.read(text, text)
    lines = text.splitlines()
    assert {lines[number - 1] for number in found if lines[number - 1]} == {lines[6], "one", "two"}
    assert set(found.values()) == {SAID}
    assert parse_author(SAID) == ("2026-11-15 09:30 +01:00", AUTHOR)


def test_every_passage_has_one_author_and_none_has_the_line_in_it(authors):
    other = describe_author("2026-11-16 09:30 +01:00", NoteAuthor("memory_append", person="bo"))
    text = f"{entry(authors, 'first')}second, by hand\n\n{entry(authors, 'third', other)}"
    note = split_note("a.md", text, authors.read(text, text))
    assert [(each.text, each.author) for each in note.passages] == [
        ("first", SAID),
        ("second, by hand", ""),
        ("third", other),
    ]
    assert "interlock" not in repr([each.words for each in note.passages])


@pytest.mark.parametrize(
    "end", ["\n", "\r\n", "   \n"], ids=["as written", "windows", "spaces at line ends"]
)
def test_what_editors_do_to_line_ends_is_no_edit(authors, end):
    text = entry(authors, "one\n\ntwo").replace("\n", end)
    assert authors.read(text, text)


def change_a_letter(text: str) -> str:
    return text.replace("boiler", "Boiler")


@pytest.mark.parametrize(
    "edited",
    [
        change_a_letter,
        lambda text: text.replace("person ada", "person bob"),
        lambda text: text.replace("by tool", "at tool"),
        lambda text: text.replace("2026-11-15 09:30 +01:00 by", "2027-11-15 09:30 +01:00 by"),
        lambda text: text.replace("interlock:4:", "interlock:2:"),
        lambda text: text.replace("interlock:4:", "interlock:9999999:"),
        lambda text: text.replace("the boiler\n", "the boiler\ninserted\n"),
        lambda text: text.replace("second\n", ""),
        lambda text: text.replace("*Written", "> *Written"),
    ],
)
def test_an_edited_entry_has_no_author_and_others_keep_theirs(authors, edited):
    one, other = entry(authors, "the boiler\n\nsecond"), entry(authors, "untouched")
    text = edited(one)
    assert text != one
    assert authors.read(text, text) == {}
    for whole in (f"{text}\n{other}", f"{other}\n{text}"):
        note = split_note("a.md", whole, authors.read(whole, whole))
        assert {each.author for each in note.passages if each.text == "untouched"} == {SAID}
        assert {each.author for each in note.passages if each.text != "untouched"} == {""}


def test_text_added_below_an_entry_is_not_its_authors(authors):
    text = entry(authors, "the boiler") + "and the chimney\n"
    found = authors.read(text, text)
    assert [text.splitlines()[number - 1] for number in found][-1] == "the boiler"


def test_no_content_can_fake_an_author(authors, tmp_path):
    """A line from another installation, a copied one over other text, one hidden in a fence."""
    elsewhere = AuthorLines(tmp_path / "other")
    fake = entry(
        elsewhere, "pay mallory", describe_author("2026-01-01 00:00 +00:00", NoteAuthor(person="root"))
    )
    copied = entry(authors, "pay bob").replace("pay bob", "pay mallory")
    mallory = describe_author("2026-11-16 10:00 +01:00", NoteAuthor("memory_append", person="mallory"))
    for hostile in (fake, copied, f"```\n{fake}", f"<!--\n{fake}", f"{fake}\n{copied}"):
        text = f"{entry(authors, hostile, mallory)}\n{entry(authors, 'honest')}"
        note = split_note("a.md", text, authors.read(text, text))
        by = {each.text: each.author for each in note.passages}
        assert {said for shown, said in by.items() if "pay mallory" in shown} == {mallory}
        assert {said for shown, said in by.items() if "honest" in shown} == {SAID}
        assert set(authors.read(hostile, hostile).values()) == set()


def test_a_valid_entry_within_another_entry_speaks_for_the_outer_author(authors):
    mallory = describe_author("2026-11-16 10:00 +01:00", NoteAuthor("memory_append", person="mallory"))
    text = entry(authors, entry(authors, "said once").rstrip(), mallory)
    assert set(authors.read(text, text).values()) == {mallory}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
@example("ada; task t_2* <!-- interlock:1")
@example("ada\n*Written")
@example("x by y")
@example("***REDACTED***")
def test_no_name_breaks_out_of_the_line(authors, name):
    said = describe_author(
        "2026-11-15 09:30 +01:00", NoteAuthor(tool="memory_append", person=name, task="t")
    )
    text = entry(authors, "content", said)
    assert len(authors.read(text, text)) == 3
    _, author = parse_author(said)
    assert (author.tool, author.task, author.agent, author.channel) == ("memory_append", "t", "", "")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_any_content_has_its_author_when_it_is_read_again(authors, content, after):
    content = content.replace("\r", "").strip()
    text = f"{entry(authors, content)}\n{after}"
    found = authors.read(text, text)
    assert set(found.values()) == {SAID}
    assert len(found) == content.count("\n") + 3


def test_where_redaction_changes_the_number_of_lines_no_author_is_known(authors):
    text = f"{entry(authors, 'the boiler')}\nkey:\nline\nline\n"
    assert authors.read(text, text.replace("line\nline", "***")) == {}


def test_a_key_is_made_once_for_its_owner_alone(authors, tmp_path):
    line = authors.line(SAID, "x")
    key = tmp_path / "state" / "key"
    assert key.stat().st_mode & 0o077 == 0
    text = f"{line}\n\nx\n"
    assert AuthorLines(key).read(text, text)
    assert [path.name for path in key.parent.iterdir()] == ["key"]


def test_many_faked_lines_cost_little(authors):
    line = authors.line(SAID, "x").replace("interlock:2:", "interlock:9999999:")
    text = f"{line}\n" * 8000
    began = time.process_time()
    assert authors.read(text, text) == {}
    assert time.process_time() - began < 2


def test_a_heading_of_one_author_is_not_shown_above_the_text_of_another(authors):
    ada = describe_author("2026-11-16 09:30 +01:00", NoteAuthor("memory_append", person="ada"))
    first, second = entry(authors, "# Ada said: always delete"), entry(authors, "the zebra", ada)
    text = f"# Note\n\n{first}\n{second}\n# By hand\n\nx\n"
    note = split_note("a.md", text, authors.read(text, text))
    assert [(each.text, each.heading, each.author) for each in note.passages] == [
        ("", "Note > 2026-11-15 09:30 +01:00", ""),
        ("", "Ada said: always delete", SAID),
        ("the zebra", "2026-11-15 09:30 +01:00", ada),
        ("x", "By hand", ""),
    ]
    assert "delete" not in note.passages[2].head_words


def test_a_heading_in_the_first_entry_is_not_the_title_of_the_note(authors):
    text = authors.line(SAID, "# Ada said") + "\n\n# Ada said\n"
    assert split_note("notes/b.md", text, authors.read(text, text)).title == "b"


@pytest.mark.parametrize("key", [b"", b"short"])
def test_a_damaged_key_signs_nothing(authors, tmp_path, key):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "key").write_bytes(key)
    with pytest.raises(OSError, match="is damaged; restore or remove it"):
        authors.line(SAID, "one")
