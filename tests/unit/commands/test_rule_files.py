"""Files of rules: what is wrong with one is said with its line, and it is not loaded."""

import pytest

from interlock.commands.rules import builtin_rules, load_rules
from interlock.core.errors import ConfigurationError

RULE = """
[[rule]]
name = "no-curl"
decision = "deny"
reason = "use http_fetch"
prefix = ["curl"]
match = ["curl x"]
not_match = [
    "echo curl",
    "ls",
]
"""


def problem(text: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        load_rules(text, "team.toml")
    return str(raised.value)


def test_every_built_in_rule_has_a_reason_another_way_and_its_line():
    rules = builtin_rules()
    assert len(rules) > 35
    for rule in rules:
        assert rule.reason
        assert rule.instead
        assert rule.place.startswith("rules.toml:")


def test_a_rule_is_known_by_file_and_line():
    assert load_rules(RULE, "team.toml")[0].label == "rule no-curl, team.toml:2"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"curl x"', '"wget x"', "team.toml:7: the rule no-curl should match 'wget x'"),
        ('    "ls",', '    "ls; curl x",', "team.toml:10: the rule no-curl should not match 'ls; curl x'"),
        ('match = ["curl x"]', "", "team.toml:2: match: Tuple should have at least 1 item"),
        ('"curl x"', "'$(' ", "team.toml:7: the rule no-curl should match"),
        ('"deny"', '"forbid"', "team.toml:2: decision: Input should be"),
        ('prefix = ["curl"]', 'prefix = ["curl | sh"]', "team.toml:2: prefix: Value error, the prefix"),
        ('prefix = ["curl"]', "", "team.toml:2: rule: Value error, give it a prefix"),
        ('prefix = ["curl"]', "pattern = '(curl'", "team.toml:2: pattern: Value error, the pattern"),
        ('prefix = ["curl"]', 'operand = ["@nothing"]', "no class of paths is named 'nothing'"),
        ('prefix = ["curl"]', 'operand = ["relative"]', "must start with /, ~ or ."),
        ('prefix = ["curl"]', 'perfix = ["curl"]', "team.toml:2: perfix: Extra inputs"),
        ("[[rule]]", "[[rule]]\n[[rule]]", "team.toml:2: name: Field required"),
        ("[[rule]]", "[rule]", "rules under a line [[rule]] each"),
        ("[[rule]]", "[[other]]", "rules under a line [[rule]] each"),
        ("[[rule]]", "[[rule", "team.toml: "),
        ("[[rule]]", "[paths]\na = []\nx = [1]\n[[rule]]", "team.toml:4: [paths]: x: give a list of texts"),
        ("[[rule]]", '[paths]\nx = ["@x"]\n[[rule]]', "team.toml:3: [paths]: x: no class of paths"),
        ("[[rule]]", "[paths.x]\ny = []\n[[rule]]", "team.toml:2: [paths]: x: give a list of texts"),
        ("[[rule]]", 'paths = "x"\n[[rule]]', "team.toml: it may have [paths]"),
        ("[[rule]]", f"x = {'9' * 5000}\n[[rule]]", "team.toml: "),
        ("[[rule]]", f"x = {'[' * 5000}{']' * 5000}\n[[rule]]", "team.toml: "),
        ('prefix = ["curl"]', 'prefix = "curl"', "team.toml:2: prefix: Value error, give a list of texts"),
        ('prefix = ["curl"]', "prefix = [1]", "team.toml:2: prefix: Value error, give a list of texts"),
        ('prefix = ["curl"]', 'prefix = [["curl"]]', "team.toml:2: prefix: Value error, give a list"),
        ('prefix = ["curl"]', "pattern = 1", "team.toml:2: pattern: Value error, give a text"),
        ('prefix = ["curl"]', 'pattern = ["x"]', "team.toml:2: pattern: Value error, give a text"),
        (
            'prefix = ["curl"]',
            'operand = "/etc"',
            "team.toml:2: operand: Value error, give a list of texts",
        ),
        ('prefix = ["curl"]', "writes = [5]", "team.toml:2: writes: Value error, give a list of texts"),
        (
            'prefix = ["curl"]',
            'prefix = ["curl"]\nplace = "x"',
            "team.toml:2: rule: Value error, place is not",
        ),
        (
            'prefix = ["curl"]',
            'prefix = ["curl"]\noperands = "last"',
            "team.toml:2: rule: Value error, operands",
        ),
        # These never match: the rule would be ignored.
        (
            'prefix = ["curl"]',
            'prefix = ["curl"]\ndirectories = ["~/x"]',
            "team.toml:2: directories.0: Value error, the directory",
        ),
        (
            'prefix = ["curl"]',
            'prefix = ["curl"]\ndirectories = ["src"]',
            "team.toml:2: directories.0: Value error, the directory",
        ),
        (
            'prefix = ["curl"]',
            'prefix = ["curl"]\ndirectories = ["/srv/*"]',
            "team.toml:2: directories.0: Value error, the directory",
        ),
        ('prefix = ["curl"]', 'prefix = ["curl"]\nunless = ["-s x"]', "team.toml:2: unless.0: "),
        ('"curl x"', f'"curl {"x" * 5000}"', "team.toml:2: match.0: String should have at most 3072"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old, new, said):
    assert old in RULE
    assert said in problem(RULE.replace(old, new, 1))


def test_two_rules_have_two_names():
    assert problem(RULE + RULE) == "team.toml:13: there are two rules named no-curl"


def test_a_file_has_classes_of_paths_of_its_own_and_the_built_in_ones():
    text = """
[paths]
data = ["!/srv/data/tmp/**", "/srv/data/**", "@device"]

[[rule]]
name = "keep-data"
decision = "deny"
reason = "it is the only copy"
writes = ["@data"]
match = ["echo x > /srv/data/a", "tee /srv/data/b/c < x", "cp x /dev/sda"]
not_match = ["echo x > /srv/data/tmp/a", "cat /srv/data/a", "echo x > /srv/other"]
"""
    assert len(load_rules(text, "team.toml")) == 1
