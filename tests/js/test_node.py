"""The tests of the page's own modules, which Node runs: tests/js/*.test.js."""

import re

from interlock.sessions.slash_commands import Surface, slash_commands_for
from tests.harness.nodejs import JS, evaluate_in_node, node


def test_the_pages_modules() -> None:
    files = sorted(map(str, JS.glob("*.test.js")))
    done = node("--test", "--test-reporter=tap", *files)
    failed = re.findall(r"^not ok .*\n(?:  .*\n)*", done.stdout, re.MULTILINE)
    assert failed == [], "\n".join(failed)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_has_the_words_of_the_table_of_commands() -> None:
    words = evaluate_in_node("texts-slash.js", "m.SLASH_TEXTS.en")
    table = slash_commands_for(Surface.page)
    assert {f"slash.{name}": each.about for name, each in table.items()}.items() <= words.items()
