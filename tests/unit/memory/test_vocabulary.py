"""Forms of words: one letter off, inflected, strangers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.memory.query_expansion import is_one_letter_off, similarity

WORDS = st.text("abcdeé", min_size=4, max_size=9)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("recieve", "receive"),
        ("rotaton", "rotation"),
        ("rotattion", "rotation"),
        ("rotstion", "rotation"),
        ("ahcen", "achen"),
        ("пароль", "пороль"),
        ("δοκιμη", "δοκμη"),
        ("ab", "ba"),
        ("rotatio", "rotation"),
        ("otation", "rotation"),
    ],
)
def test_one_letter_off_is_seen_both_ways(word, other):
    assert is_one_letter_off(word, other)
    assert is_one_letter_off(other, word)


@pytest.mark.parametrize(
    ("word", "other"), [("abcd", "abcd"), ("abcd", "badc"), ("abcd", "ab"), ("abc", "xyz")]
)
def test_anything_else_is_not(word, other):
    assert not is_one_letter_off(word, other)


@given(WORDS, st.data())
def test_every_single_change_is_seen(word, data):
    place = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("xyz"))
    swapped = word[:place] + word[place + 1 : place + 2] + word[place] + word[place + 2 :]
    for changed in (
        word[:place] + word[place + 1 :],
        word[:place] + letter + word[place:],
        word[:place] + letter + word[place + 1 :],
        swapped,
    ):
        assert changed == word or is_one_letter_off(word, changed)


@given(WORDS, st.data())
def test_the_letters_before_or_behind_the_middle_survive_any_change(word, data):
    """What the look-up by beginning and by end relies on."""
    place = data.draw(st.integers(0, len(word) - 1))
    half = (len(word) - 1) // 2
    swapped = word[:place] + word[place + 1 : place + 2] + word[place] + word[place + 2 :]
    for changed in (word[:place] + word[place + 1 :], word[:place] + "x" + word[place:], swapped):
        assert changed.startswith(word[:half]) or changed.endswith(word[-half:])


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("notes", "note"),
        ("deployed", "deployment"),
        ("config", "configuration"),
        ("договора", "договор"),
        ("reunion", "reuniones"),
        ("mieten", "miete"),
    ],
)
def test_inflected_and_longer_forms_are_kin_and_worth_less(word, form):
    assert 0 < similarity(word, form) < similarity(word, word) == 1.0


@pytest.mark.parametrize(("word", "form"), [("form", "from"), ("interest", "internet"), ("cat", "dog")])
def test_strangers_are_not_kin(word, form):
    assert similarity(word, form) == 0
