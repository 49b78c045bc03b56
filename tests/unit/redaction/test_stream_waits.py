"""Ordinary text leaves a stream almost as it comes: by words, and behind the name of a secret by lines."""

from pathlib import Path

from interlock.redaction.redactor import Redactor
from interlock.redaction.rule_loader import RedactionRule
from tests.harness.case_tables import each_row
from tests.unit.redaction.case_file import fed

ROOT = Path(__file__).parents[3]
TEXTS = {
    "English": "The password for the staging server must be changed every ninety days, and the token for "
    "the deploy job has to be rotated as well. Passwords and secrets are never written to the log; the "
    "access key is kept in the vault, and the secret is read when the job starts. " * 20,
    "Chinese": "我们今天讨论了数据库的迁移方案，密码需要在下周之前更换。请确认令牌的有效期。" * 40,
    "code": (ROOT / "src/interlock/redaction/scanner.py").read_text("utf-8"),
    "documentation": (ROOT / "README.md").read_text("utf-8"),
}


def waits(text: str, piece: int) -> list[int]:
    stream, held = Redactor().stream(), []
    for start in range(0, len(text), piece):
        stream.feed(text[start : start + piece])
        held.append(stream.held)
    return sorted(held)


@each_row("kind", TEXTS)
@each_row("piece", [4, 5, 6])
def test_what_waits_is_a_word_and_seldom_a_few(kind, piece):
    held = waits(TEXTS[kind], piece)
    assert held[len(held) // 2] <= 48
    assert held[len(held) * 99 // 100] <= 96
    assert held[-1] <= 256


def test_a_script_without_spaces_waits_by_characters():
    assert waits("图书馆每天八点开门，周末会稍微晚一些。" * 20, 5)[-1] < 24 + 32
    assert waits("図書館は毎日八時に開きます。" * 20, 5)[-1] < 24 + 32


def test_behind_the_name_of_a_secret_at_most_half_a_kilobyte_waits():
    for text in ("password: " + "a word, " * 400, "echo " + "a word, " * 400, "令牌 " + "a word, " * 400):
        assert waits(text, 5)[-1] < 512 + 512 // 8 + 32


def test_a_rule_of_an_operator_without_a_beginning_waits_for_its_line():
    rule = RedactionRule(id="own", what="words", pattern="badge [0-9]{4} of [a-z]{4,}")
    stream = Redactor(rules=[rule]).stream()
    assert stream.feed("a line\nand another one, which is not complete") == "a line\n"
    begun = RedactionRule(id="own", what="words", pattern="badge [0-9]{4} of [a-z]{4,}", begins="badge")
    shown = Redactor(rules=[begun]).stream().feed("and another one, which is not complete")
    assert shown == "and another one, which is not "


def test_what_can_begin_in_such_a_script_is_found_wherever_it_is_cut():
    redactor = Redactor(["密碼-naïve-42"], rules=None)
    text = "人口普查，访问口令和密的密码：k3jd92mzxQ81，然后是密碼-naïve-42。令牌是好的"
    whole = redactor.text(text)
    assert "k3jd92" not in whole
    assert "naïve" not in whole
    for first in range(len(text)):
        for second in range(first, len(text)):
            pieces = (text[:first], text[first:second], text[second:])
            assert fed(redactor, *pieces) == whole


def test_an_operators_rule_may_begin_with_any_character():
    rule = RedactionRule(id="any", what="anything before a sign", pattern="[^a-z ]{3,9}::[0-9]{4}")
    redactor = Redactor(rules=[rule])
    text = "图书馆每天::1234 开门"
    whole = redactor.text(text)
    assert "1234" not in whole
    assert [fed(redactor, text[:cut], text[cut:]) for cut in range(len(text))] == [whole] * len(text)


def test_a_long_line_behind_a_name_leaves_before_its_end():
    text = "DB_PASSWORD=x " + "it is read when the job starts and nothing else has it " * 20
    assert waits(text, 5)[-1] < 512 + 512 // 8 + 32


def test_no_ordinary_text_is_changed():
    redactor = Redactor()
    for text in TEXTS.values():
        assert fed(redactor, text) == text


def test_after_a_long_secret_the_text_leaves_again():
    stream = Redactor().stream()
    stream.feed('password="' + "k3jd92mzxQ81" * 100)
    shown = "".join(stream.feed(piece) for piece in ['" and', *[" then more"] * 40])
    assert "then more then more" in shown
    assert stream.held < 64
