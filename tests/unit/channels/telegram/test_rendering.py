"""Markdown as a text with places: what a person reads is what was meant, whatever was written."""

import time

from hypothesis import given
from hypothesis import strategies as st

from interlock.channels.telegram.markdown import TextEntity, render_markdown
from interlock.channels.telegram.message_splitter import MAX_UNITS, utf16_length
from interlock.redaction.redactor import MARK
from tests.harness.case_tables import each_row

SIGNS = ["**", "*", "_", "__", "`", "```", "~~", "[", "](", ")", "https://a.test", "# ", "> ", "- "]
MARKS = st.sampled_from([*SIGNS, "\n", "word", "😀", " ", "\n```\n", "é"])


def places(markdown: str) -> list[tuple[str, str]]:
    """Each place by what it covers, as Telegram counts."""
    shown = render_markdown(markdown)
    wide = shown.text.encode("utf-16-le")
    return [
        (entity.type, wide[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le"))
        for entity in shown.entities
    ]


@given(st.lists(MARKS | st.text(max_size=5), max_size=60).map("".join))
def test_every_place_is_inside_the_text_which_never_grows(markdown):
    shown = render_markdown(markdown)
    assert utf16_length(shown.text) <= utf16_length(markdown)
    for entity in shown.entities:
        assert entity.length > 0
        assert entity.offset >= 0
        assert entity.offset + entity.length <= utf16_length(shown.text)


def test_marks_become_places():
    assert render_markdown("a **b** _c_ `d` ~~e~~").text == "a b c d e"
    assert places("a **b** _c_ `d` ~~e~~") == [
        ("bold", "b"),
        ("italic", "c"),
        ("code", "d"),
        ("strikethrough", "e"),
    ]


def test_places_count_pairs_of_units_as_two():
    assert render_markdown("😀 **b**").entities == (TextEntity("bold", 3, 1),)


def test_marks_lie_inside_one_another():
    assert places("**a `b` *c***")[0] == ("bold", "a b c")


def test_a_code_block_is_one_place_and_nothing_in_it_is_a_mark():
    shown = render_markdown("```python\nx = a**b**c  # _no_\n```")
    assert shown.text == "x = a**b**c  # _no_"
    assert shown.entities == (TextEntity("pre", 0, len(shown.text), None, "python"),)


def test_headings_lists_and_quotes():
    assert (
        render_markdown("# Title\n- one\n* two\n> said\n> more\nafter").text
        == "Title\n• one\n• two\nsaid\nmore\nafter"
    )
    assert places("# Title\n> said\n> more\nafter") == [("bold", "Title"), ("blockquote", "said\nmore")]


def test_a_link_leads_only_where_links_lead():
    assert render_markdown("[here](https://example.test/a)").entities[0].url == "https://example.test/a"
    assert render_markdown("[here](javascript:alert)").text == "[here](javascript:alert)"


def test_what_is_no_mark_stays():
    for text in ("2 * 3 * 4", "snake_case_name", "a ** b", "**open", "<b>&amp;</b>"):
        assert render_markdown(text).text == text
        assert render_markdown(text).entities == ()


def test_what_stands_for_a_secret_stays_as_it_is():
    shown = render_markdown(f"The key is {MARK}, **not {MARK}**.")
    assert shown.text == f"The key is {MARK}, not {MARK}."


HOSTILE = ("[", "[a", "**a ", "__a ", "~~a ", "*a ", "_a ", "`a", "`", "[a](http://", "**[a", "__**~~")


@each_row("piece", HOSTILE)
def test_no_message_takes_long_however_it_is_written(piece):
    """All messages of an answer are looked at again as it grows, between everything else the bot does."""
    markdown = (piece * 8 * MAX_UNITS)[: 8 * MAX_UNITS]
    began = time.process_time()
    render_markdown(markdown)
    assert time.process_time() - began < 2


def test_a_link_does_not_show_another_address_than_its_own():
    for markdown in (
        "[https://bank.example](https://evil.example)",
        "[bank.example](https://evil.example/login)",
        "[Go to www.bank.example now](https://evil.example)",
    ):
        shown = render_markdown(markdown)
        assert (shown.text, shown.entities) == (markdown, ())
    assert render_markdown("[the docs](https://example.org)").text == "the docs"
    # It would name a person, or have another program do something.
    assert render_markdown("[Ann](tg://user?id=42)").entities == ()


def test_nothing_turns_other_text_around():
    assert render_markdown("a\u202egpj.exe\u2066b\u2069").text == "a\ufffdgpj.exe\ufffdb\ufffd"
    # What letters and emoji are joined with stays.
    assert render_markdown("👩\u200d🚀 \u200fשלום").text == "👩\u200d🚀 \u200fשלום"
