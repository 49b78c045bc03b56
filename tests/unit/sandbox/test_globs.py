"""Patterns: what they match, and that no pattern takes long."""

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.sandbox.globs import MAX_ALTERNATIVES, MAX_LENGTH, Glob, InvalidGlob, expand_braces
from tests.harness.case_tables import daily, each_row


@each_row(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/deep/a.py", True),
        ("*.py", "a.pyc", False),
        ("*", ".hidden", True),
        ("?", "ä", True),
        ("?", "", False),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("[a-c]x", "bx", True),
        ("[]]", "]", True),
        ("[[]", "[", True),
        ("[a", "[a", True),
        ("[z-a]", "m", False),
        ("[a&&b]", "&", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/*.py", "x/src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**/a.py", "a.py", True),
        ("**/a.py", "x/y/a.py", True),
        ("src/**", "src", True),
        ("src/**", "src/x/y", True),
        ("**", "x/y", True),
        ("**/**/**", "x", True),
        ("a/**/b/**/c", "a/b/c", True),
        ("a/**/b/**/c", "a/x/b/y/z/c", True),
        ("a/**/b/**/c", "a/c", False),
        ("a**b", "axxb", True),
        ("a**b", "a/b", False),
        ("./a.py", "a.py", True),
        ("./a.py", "src/a.py", False),
        ("src/", "x/src", True),
        ("//a//b", "a/b", True),
        ("*.{py,md}", "x/a.md", True),
        ("{src,lib}/*.py", "lib/a.py", True),
        ("{src/deep,lib}/*.py", "src/deep/a.py", True),
        ("{*.py,docs/*.md}", "x/a.py", True),
        ("{*.py,docs/*.md}", "x/docs/a.md", False),
        ("a\nb*", "a\nbc", True),
        ("*", "a\nb", True),
        ("\\*", "*", False),
        ("*.PY", "a.py", False),
        ("..", "x", False),
    ],
)
def test_a_pattern_matches(pattern, path, expected):
    parts = path.split("/") if path else []
    assert Glob(pattern).matches(parts) is expected


def test_a_whole_match_does_not_look_for_a_single_name_anywhere():
    assert Glob("a").matches(("x", "a"))
    assert not Glob("a").matches_whole(("x", "a"))
    assert Glob("a").matches_whole(("a",))


def test_case_is_passed_over_only_when_asked():
    assert Glob("*.PY", ignore_case=True).matches(["a.py"])
    assert not Glob("*.PY").matches(["a.py"])


def test_two_spellings_of_a_letter_do_not_match_each_other():
    composed, decomposed = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    assert not Glob(composed).matches([decomposed])


@pytest.mark.parametrize("pattern", ["", "/", ".", "./", "{/,b}", "{,b}"])
def test_a_pattern_that_can_match_nothing_is_refused(pattern):
    with pytest.raises(InvalidGlob, match="matches nothing"):
        Glob(pattern)


@each_row(
    ("pattern", "expanded"),
    [
        ("a", ["a"]),
        ("", [""]),
        ("{a,b}", ["a", "b"]),
        ("x{a,b}y", ["xay", "xby"]),
        ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
        ("{a,{b,c}d}e", ["ae", "bde", "cde"]),
        ("{a,}", ["a", ""]),
        ("{,}", ["", ""]),
        ("{a}", ["{a}"]),
        ("{}", ["{}"]),
        ("{{a,b}}", ["{a}", "{b}"]),
        ("{a", ["{a"]),
        ("a}", ["a}"]),
        ("}{a,b}", ["}a", "}b"]),
        ("{x{a,b}", ["{xa", "{xb"]),
        ("{a,{b,c}", ["{a,b", "{a,c"]),
        ("{a,b}}", ["a}", "b}"]),
        ("a,b", ["a,b"]),
        ("{a/b,c}/d", ["a/b/d", "c/d"]),
    ],
)
def test_braces_stand_for_each_of_their_choices(pattern, expanded):
    assert expand_braces(pattern) == expanded


@pytest.mark.parametrize(
    "pattern",
    [
        "{" * 4000,
        "}" * 4000,
        "{}" * 2000,
        "{" * 2000 + "}" * 2000,
        "{a" * 1300,
        "{x{a,b}",
        "{" * 1000 + "a,b" + "}" * 1000,
        "," * 4000,
        "{," * 1300,
    ],
)
def test_braces_that_mean_themselves_are_no_error(pattern):
    assert len(expand_braces(pattern)) <= 2


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("{a,b}" * 7, "more than 64"),
        ("{a,b}" * 800, "more than 64"),
        ("{" + "," * 64 + "}", "more than 64"),
        ("{" + "," * 4000 + "}", "more than 64"),
        ("{a," * 20 + "b" + "}" * 20, "nested"),
        ("{a," * 1000 + "b" + "}" * 1000, "nested"),
        ("x" * (MAX_LENGTH + 1), "longer"),
        ("{a,b}" * 10_000, "longer"),
    ],
)
def test_braces_that_stand_for_too_much_are_refused(pattern, said):
    with pytest.raises(InvalidGlob, match=said):
        expand_braces(pattern)


HOSTILE = [
    "*a" * 2000,
    "*" * 4000,
    "?*" * 2000,
    "[!b]*" * 800,
    "*/" * 2000,
    "**/" * 1300,
    "**/a/" * 800,
    "**/*a*a*a/" * 400,
    "**/*/" * 600,
    "{*a,*b}" * 6 + "*a" * 1500,
    "[" * 4000,
    "[a-" * 1300,
    "{" * 4000,
    "{a," * 1300,
]

WORK = """
import sys
from interlock.sandbox.globs import InvalidGlob, Glob
pattern = sys.stdin.read()
try:
    glob = Glob(pattern, ignore_case=sys.argv[1] == "ignoring case")
except InvalidGlob:
    sys.exit()
for name in ("a" * 255, "a" * 254 + "b", "ab" * 127):
    for depth in (1, 50, 1000):
        glob.matches([name] * depth)
        glob.matches_whole(["a"] * depth)
"""


@pytest.mark.parametrize("case", daily(["ignoring case", "as it is"], 2))
@each_row("pattern", HOSTILE, ids=lambda pattern: f"{pattern[:12]}… of {len(pattern)}")
def test_no_pattern_takes_for_ever(pattern, case):
    """In a process of its own, with a bound that only something exponential or cubic can reach."""
    done = subprocess.run(
        [sys.executable, "-c", WORK, case],
        input=pattern,
        text=True,
        timeout=60,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# -- against a plain reference --


def name_matches(pattern: str, name: str) -> bool:
    """The meaning of `*`, `?` and `[…]`, written down as plainly as can be."""
    if not pattern:
        return not name
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        return any(name_matches(rest, name[count:]) for count in range(len(name) + 1))
    if not name:
        return False
    if head == "?":
        return name_matches(rest, name[1:])
    end = pattern.find("]", 3 if pattern[1:3] == "!]" else 2)
    if head == "[" and end != -1:
        listed = pattern[1:end]
        is_negated = listed.startswith("!")
        return (name[0] in listed.removeprefix("!")) is not is_negated and name_matches(
            pattern[end + 1 :], name[1:]
        )
    return head == name[0] and name_matches(rest, name[1:])


def path_matches(patterns: list[str], path: list[str]) -> bool:
    if not patterns:
        return not path
    if patterns[0] == "**":
        return any(path_matches(patterns[1:], path[count:]) for count in range(len(path) + 1))
    return bool(path) and name_matches(patterns[0], path[0]) and path_matches(patterns[1:], path[1:])


NAMES = st.text("ab.[]!^\n&|~-é", min_size=1, max_size=5)
PATHS = st.lists(NAMES, min_size=1, max_size=5)
# A dash between two others would be a range, which the reference does not know.
PATTERN_PARTS = st.text("aab.*?[]!^\n&|~é", min_size=1, max_size=7).filter(lambda part: part != ".")
PATTERNS = st.lists(st.one_of(st.just("**"), st.just("*"), PATTERN_PARTS), min_size=1, max_size=5)


@given(patterns=PATTERNS, path=PATHS)
def test_a_pattern_means_what_the_reference_says(patterns, path):
    glob = Glob("/".join(patterns))
    assert glob.matches_whole(path) is path_matches(patterns, path)
    whole = len(patterns) > 1
    assert glob.matches(path) is path_matches(patterns, path if whole else path[-1:])


@given(pattern=st.text("{},ab", max_size=24))
def test_an_expansion_is_bounded(pattern):
    try:
        expanded = expand_braces(pattern)
    except InvalidGlob:
        return
    assert 1 <= len(expanded) <= MAX_ALTERNATIVES
    assert sum(map(len, expanded)) <= len(pattern) * MAX_ALTERNATIVES


@given(
    choices=st.lists(st.text("ab*/", max_size=4), min_size=2, max_size=5),
    before=st.text("ab"),
    after=st.text("ab"),
)
def test_braces_are_the_same_as_their_choices_written_out(choices, before, after):
    assert expand_braces(f"{before}{{{','.join(choices)}}}{after}") == [
        f"{before}{choice}{after}" for choice in choices
    ]


@given(pattern=st.text(max_size=30), path=st.lists(st.text(max_size=10), max_size=4))
def test_no_text_is_more_than_a_bad_pattern(pattern, path):
    try:
        glob = Glob(pattern)
    except InvalidGlob:
        return
    assert glob.matches(path) in {True, False}
