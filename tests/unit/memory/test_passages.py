"""Cutting notes: at headings, by size, with the line each piece begins at."""

from hypothesis import given
from hypothesis import strategies as st

from interlock.memory.passages import MAX_PASSAGE_CHARS, MAX_PASSAGES, split_note
from interlock.memory.snippets import snippet

NOTE = """# Deploy

## Rollback

Run the script.

```sh
# not a heading
```

### By hand 2026-01-02
Ask Maria.

## Empty
"""


def test_a_note_is_cut_at_its_headings():
    note = split_note("ops/deploy.md", NOTE)
    assert note.title == "Deploy"
    assert [(passage.line, passage.heading) for passage in note.passages] == [
        (5, "Deploy > Rollback"),
        (12, "Deploy > Rollback > By hand 2026-01-02"),
        (14, "Deploy > Empty"),
    ]
    assert "not a heading" in note.passages[0].text
    assert {"ops", "deploy", "rollback"} <= set(note.passages[0].head_words)


def test_a_passage_knows_its_day_from_its_heading_or_its_file():
    note = split_note("journal/2026-03-04.md", "# Day\n\nfirst\n\n## At 2026-01-02\n\nsecond\n")
    assert [passage.day for passage in note.passages] == ["2026-03-04", "2026-01-02"]
    assert split_note("a.md", "x").passages[0].day is None


def test_an_empty_note_is_found_by_its_name():
    (passage,) = split_note("plans/summer-house.md", "").passages
    assert {"plans", "summer", "house"} <= set(passage.head_words)
    assert passage.line == 1


def test_old_line_ends_count_as_lines():
    assert split_note("a.md", "one\r\n\r\n# Two\r\nthree\rfour").passages[-1].line == 4


@given(st.text(st.sampled_from("ab #\n\r`字."), max_size=4000))
def test_no_text_is_lost_and_no_piece_too_long(text):
    note = split_note("a.md", text)
    assert all(len(passage.text) <= MAX_PASSAGE_CHARS for passage in note.passages)
    assert len(note.passages) <= MAX_PASSAGES
    kept = "".join(passage.text + passage.heading for passage in note.passages)
    for letter in "ab字":
        assert kept.count(letter) >= sum(
            line.count(letter) for line in text.replace("\r", "\n").split("\n") if "#" not in line
        )


def test_a_snippet_shows_the_words_and_is_cut_between_words():
    text = "filler words go here " * 40 + "the needle lies in the hay " + "more filler follows " * 40
    cut = snippet(text, {"needle", "hay"}, 120)
    assert "needle lies in the hay" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert set(cut.strip("…").split()) <= set(text.split())
    assert len(cut) <= 122


def test_a_snippet_of_a_script_without_spaces_is_cut_all_the_same():
    text = "字" * 500 + "咖啡店在南京路" + "文" * 500
    assert "咖啡" in snippet(text, {"咖啡"}, 100)
    assert len(snippet(text, {"咖啡"}, 100)) <= 102


@given(st.text(), st.integers(10, 300))
def test_a_snippet_is_one_bounded_line(text, width):
    cut = snippet(text, {"a"}, width)
    assert "\n" not in cut
    assert len(cut) <= width + 2
