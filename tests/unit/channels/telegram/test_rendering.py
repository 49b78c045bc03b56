"""Markdown as a text with places: what a person reads is what was meant, whatever was written."""

from hypothesis import given
from hypothesis import strategies as st

from interlock.channels.telegram.rendering import Entity, rendered
from interlock.channels.telegram.splitting import units
from interlock.redaction.redactor import MARK

SIGNS = ["**", "*", "_", "__", "`", "```", "~~", "[", "](", ")", "https://a.test", "# ", "> ", "- "]
MARKS = st.sampled_from([*SIGNS, "\n", "word", "😀", " ", "\n```\n", "é"])


def places(markdown: str) -> list[tuple[str, str]]:
    """Each place by what it covers, as Telegram counts."""
    shown = rendered(markdown)
    wide = shown.text.encode("utf-16-le")
    return [
        (entity.type, wide[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le"))
        for entity in shown.entities
    ]


@given(st.lists(MARKS | st.text(max_size=5), max_size=60).map("".join))
def test_every_place_is_inside_the_text_which_never_grows(markdown):
    shown = rendered(markdown)
    assert units(shown.text) <= units(markdown)
    for entity in shown.entities:
        assert entity.length > 0
        assert entity.offset >= 0
        assert entity.offset + entity.length <= units(shown.text)


def test_marks_become_places():
    assert rendered("a **b** _c_ `d` ~~e~~").text == "a b c d e"
    assert places("a **b** _c_ `d` ~~e~~") == [
        ("bold", "b"),
        ("italic", "c"),
        ("code", "d"),
        ("strikethrough", "e"),
    ]


def test_places_count_pairs_of_units_as_two():
    assert rendered("😀 **b**").entities == (Entity("bold", 3, 1),)


def test_marks_lie_inside_one_another():
    assert places("**a `b` *c***")[0] == ("bold", "a b c")


def test_a_code_block_is_one_place_and_nothing_in_it_is_a_mark():
    shown = rendered("```python\nx = a**b**c  # _no_\n```")
    assert shown.text == "x = a**b**c  # _no_"
    assert shown.entities == (Entity("pre", 0, len(shown.text), None, "python"),)


def test_headings_lists_and_quotes():
    assert (
        rendered("# Title\n- one\n* two\n> said\n> more\nafter").text
        == "Title\n• one\n• two\nsaid\nmore\nafter"
    )
    assert places("# Title\n> said\n> more\nafter") == [("bold", "Title"), ("blockquote", "said\nmore")]


def test_a_link_leads_only_where_links_lead():
    assert rendered("[here](https://example.test/a)").entities[0].url == "https://example.test/a"
    assert rendered("[here](javascript:alert)").text == "[here](javascript:alert)"


def test_what_is_no_mark_stays():
    for text in ("2 * 3 * 4", "snake_case_name", "a ** b", "**open", "<b>&amp;</b>"):
        assert rendered(text).text == text
        assert rendered(text).entities == ()


def test_what_stands_for_a_secret_stays_as_it_is():
    shown = rendered(f"The key is {MARK}, **not {MARK}**.")
    assert shown.text == f"The key is {MARK}, not {MARK}."
