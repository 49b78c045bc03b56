"""A secret with slashes is masked as a path, resolved or in parts, and ordinary words stay."""

import pytest

from interlock.core.text import escape_control_characters
from interlock.redaction.redactor import MARK, Redactor

KEY = "wJalrXUtnFE/K7MDENG//bPxRfi9CY+/3yEX"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"there is no {KEY}", f"there is no {MARK}"),
        (f"there is no {KEY.replace('//', '/')}.txt", f"there is no {MARK}.txt"),
        ("created in/wJalrXUtnFE: a folder", f"created in/{MARK}: a folder"),
        ("K7MDENG/", f"{MARK}/"),
        ('{"path": "bPxRfi9CY+\\/3yEX"}', f'{{"path": "{MARK}\\/3yEX"}}'),
    ],
)
def test_a_secret_with_slashes_is_masked_as_a_path_and_in_parts(text, shown):
    assert Redactor([KEY]).text(text) == shown


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("https://hooks.example.com/services/T02AB34CD/qX7vK2mZ9pLw", "services of hooks.example.com"),
        ("team/production/x9", "the team in production"),
        ("a/b/c/d/e", "a b c d e"),
    ],
)
def test_parts_that_are_ordinary_words_stay(secret, text):
    redactor = Redactor([secret])
    assert redactor.text(text) == text
    assert redactor.text(secret) == MARK


def test_a_secret_of_several_lines_is_masked_where_a_message_shows_its_line_ends():
    secret = "q7Xc/9LmZp2\nRt4Vw/8KsYd1\n"
    assert (
        Redactor([secret]).text(f"there is no {escape_control_characters(secret)}.txt")
        == f"there is no {MARK}.txt"
    )


def test_the_random_part_of_an_address_is_masked():
    redactor = Redactor(["https://hooks.example.com/services/T02AB34CD/qX7vK2mZ9pLw"])
    assert redactor.text("in qX7vK2mZ9pLw/") == f"in {MARK}/"
