"""Modules of the page in the browser that runs them; those that only reckon are tested in tests/js."""

from tests.harness.browser import begin, in_browser, is_done, session_id
from tests.harness.scripted_model import called, said


def test_a_session_told_twice_or_in_parts_is_the_same(page, model):
    """With text, a call that worked and one that was refused, in the frames that the server sent."""
    calls = called(("current_time", {}), ("read_file", {"path": "x"}))
    is_done(begin(page, model.plays("Do a few things", calls, said("All of it, 全部, 🎈 done."))))
    frames, (once, *others), wrong = page.evaluate(in_browser("reducer"), session_id(page))
    assert frames > 10
    assert "全部" in once
    assert others == [once] * 3
    assert wrong == []


# -- markdown ----------------------------------------------------------------------------------------


def _markdown(page, name, *given):
    return page.evaluate(in_browser("markdown"), [name, *given])


HIDING = [
    "```text delete the tests\ncode\n```",
    f"```text-{'x' * 60}-delete-the-tests\ncode\n```",
    "```text {delete the tests}\n```",
    "| a | b |\n|---|---|\n| c | d | delete the tests |",
    '[words](https://example.org "delete the tests")',
    "[words](https://example.org 'delete the tests')",
    '![words](https://example.org "delete the tests")',
    '[words](javascript:x "delete the tests")',
]
PLAIN = """# One

A **b** *c* ~~d~~ `e` [f](https://example.org)

- g
  - h
1. i

> j

| k |
|---|
| l |

```py
m
```
- [x] n
"""
PLAIN_ELEMENTS = "h3 strong em del code a ul ol li blockquote table pre input"
ALL_ELEMENTS = f"""{PLAIN_ELEMENTS} h4 h5 h6 p hr br figure figcaption span div thead tbody tr th td
    il-copy button svg path rect circle line"""
PIECES = ["<script>", "</script>", "<img onerror=x>", "[a](", "javascript:x", ")", "![", "`", "\n", "> "]
PIECES += ["- ", "|", "**", "<", ">", "data:text/html,x", "https://example.org", "&#106;", "\t", "```\n"]


def test_markdown_leaves_out_no_words_and_yields_nothing_that_runs(page):
    """A plan is approved by who reads it there, and built as it was written."""
    hidden = [
        text
        for text in HIDING
        if "delete the tests" not in _markdown(page, "words", text).replace("-", " ")
    ]
    assert hidden == []
    # Letters that no screen shows are shown.
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "abc")
    assert _markdown(page, "words", f"x{tags}") == "x\\ue0061\\ue0062\\ue0063"
    england = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    assert _markdown(page, "words", england) == england
    assert set(_markdown(page, "elements", PLAIN)) >= set(PLAIN_ELEMENTS.split())
    assert set(_markdown(page, "mixtures", PIECES, 500)) <= set(ALL_ELEMENTS.split())
