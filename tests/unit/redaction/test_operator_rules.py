"""An operator's file of rules does what it says, or nothing starts and one sentence tells why."""

import pytest

from interlock.redaction.factory import select_rules
from interlock.redaction.redactor import MARK, Redactor
from interlock.redaction.rule_loader import MAX_RULES, InvalidRules, load_builtin_rules
from tests.unit.redaction.case_file import fed

GOOD = """
[fragments]
serial = '[0-9]{4}-[A-Z]{4}'

[[rule]]
id = "badge"
what = "the number of a badge"
pattern = 'badge (?&serial)'
must = [["badge 1234", "-ABCD"]]
must_not = ["badge 12-AB"]
"""


def rule(**fields: str) -> str:
    given = {"id": '"x"', "pattern": "'abcd[0-9]+'", "must": '["abcd1"]'} | fields
    return "[[rule]]\n" + "".join(f"{name} = {value}\n" for name, value in given.items() if value)


def test_a_rule_of_ones_own_is_used_with_the_others(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(GOOD)
    redactor = Redactor(rules=select_rules(path))
    assert redactor.text("badge 1234-ABCD, password=hunter#p6zm") == f"{MARK}, password={MARK}"
    assert fed(redactor, *"a badge 1234-ABCD b") == f"a {MARK} b"


def test_a_rule_can_be_switched_off():
    rules = select_rules(off=["url-password"])
    assert {each.id for each in load_builtin_rules()} - {each.id for each in rules} == {"url-password"}
    assert Redactor(rules=rules).text("ftp://bob:tiger@x.test") == "ftp://bob:tiger@x.test"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[rule", "is not TOML"),
        ("[rules]\n", "has 'rules', which is neither rule nor fragments"),
        ("fragments = 1", "fragments must map names to texts"),
        ("[fragments]\na = 1", "fragments must map names to texts"),
        ("rule = 1", "rules must be a list"),
        ("rule = [1]", "rule 1 is not a table"),
        ("[[rule]]\nid='a'\n" * (MAX_RULES + 1), f"at most {MAX_RULES}"),
        (rule(id=""), "id must be a short name"),
        (rule(id='"Not This"'), "id must be a short name"),
        (rule(id="7"), "id must be a short name"),
        (rule(colour='"red"'), "'colour' is not a field of a rule"),
        (rule(what="7"), "what must be a text"),
        (rule(pattern="['a']"), "pattern must be a text"),
        (rule(pattern=""), "has no pattern"),
        (rule(pattern="'(?&nowhere)'"), "there is no fragment 'nowhere'"),
        (rule(check='"magic"'), "there is no check 'magic', only "),
        (rule(must="7"), "must must be a list of examples"),
        (rule(must="[7]"), "an example must be a text, or a list of its parts"),
        (rule(must_not='[["a", 7]]'), "an example must be a text, or a list of its parts"),
        (rule(must=""), "has no example that it must match"),
        (rule(must="[]"), "has no example that it must match"),
        (rule(must='["abc"]'), "does not match its example 'abc'"),
        (rule(must_not='["abcd1"]'), "matches its counter-example 'abcd1'"),
        (rule(pattern="'abc'", must='["abc"]'), "at least 4 characters"),
        (rule(pattern="'(?:abcd)?'", must='["abcd"]'), "at least 4 characters"),
        (rule(pattern="'(?=abcd)'"), "invalid perl operator: (?="),
        (rule(pattern="'(abcd)\\1'"), "invalid escape sequence: \\1"),
        (rule(pattern="'abcd[z-a]'"), "invalid character class range"),
        (rule(pattern="'abcd[0-9]{1001}'"), "invalid repetition size"),
        (rule(pattern="'(?:abcd[0-9]{0,100}){0,100}abcd[0-9]'"), "invalid repetition size"),
        (rule(after="'(a'"), "missing )"),
        (rule(after="'[z-a]'"), "invalid character class range"),
        (rule(pattern="'abcd[ä]'"), "a class can contain only ASCII characters"),
        ("begins = 7\n" + rule(), "begins must be a text"),
        ("begins = '(a'\n" + rule(), "missing )"),
        (
            "begins = 'badge'\n" + rule(pattern="'card [0-9]{4}'", must='["card 1234"]'),
            "begins does not match where its example",
        ),
        (rule(id='"named"'), "there are two rules with the id 'named'"),
        (rule() + rule(), "there are two rules with the id 'x'"),
    ],
)
def test_a_broken_file_is_refused_in_one_clear_sentence(tmp_path, text, reason):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(InvalidRules) as refusal:
        select_rules(path)
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "b'" not in str(refusal.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    for path, text in ((tmp_path / "none.toml", None), (tmp_path / "latin.toml", b"\xff\xfe")):
        if text:
            path.write_bytes(text)
        with pytest.raises(InvalidRules, match="cannot be read"):
            select_rules(path)


def test_only_a_rule_that_there_is_can_be_switched_off():
    with pytest.raises(InvalidRules, match="there is no rule 'nothing'"):
        select_rules(off=["nothing"])


@pytest.mark.parametrize("pattern", ["secret: .{4}", "secret: [^a]{5}", "(?:secret: )(.{7})"])
def test_a_pattern_that_parts_a_character_takes_all_of_it(pattern):
    redactor = Redactor(rules=read(rule(pattern=f"'{pattern}'", must='["secret: bcdefgh"]')))
    text = "secret: 密码密码 é"
    assert MARK in redactor.text(text)
    assert fed(redactor, *text) == redactor.text(text)
    assert [text[start:end] for start, end in redactor.spans(text)]


def test_a_rule_that_begins_inside_a_word_is_found_in_a_stream():
    redactor = Redactor(rules=read(rule(pattern=r"'\Btail-[0-9]+'", must='["xtail-7"]')))
    assert redactor.text("xtail-77 tail-77 ") == f"x{MARK} tail-77 "
    assert fed(redactor, *"xtail-77 tail-77 ") == f"x{MARK} tail-77 "


def read(text: str):
    from interlock.redaction.rule_loader import parse_rules

    return parse_rules(text, "here")
