"""The subset of regular expressions that a rule may use: what is refused, what is known of a pattern."""

import itertools
import re
from re import _parser

import pytest
import re2
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.redaction.pattern_parser import (
    InvalidPattern,
    count_groups,
    min_match_length,
    parse,
    prefix_pattern,
    to_source,
)
from interlock.redaction.prefilters import first_characters, head_pattern, relax_pattern
from interlock.redaction.re2_engine import options
from tests.harness.case_tables import each_row


@each_row(
    ("pattern", "reason", "offset"),
    [
        ("ab)", "unexpected closing bracket", 2),
        ("(ab", "a bracket is not closed", 3),
        ("(?=ab)", "a group must be", 2),
        ("(?<name>ab)", "a group must be", 2),
        ("(?P<name>ab)", "a group must be", 2),
        ("[ab", "a class is not closed", 3),
        ("[ä]", "a class can contain only ASCII characters", 3),
        ("*a", "unexpected '*'; a character is expected", 0),
        ("a**", "unexpected '*'; a character is expected", 2),
        ("a{2", "a count must be", 2),
        ("a{,2}", "a count must be", 2),
        ("a{x}", "a count must be", 2),
        ("(a)\\1", "unknown escape \\1", 4),
        ("a\\", "unknown escape \\", 2),
        ("\\pL", "unknown escape \\p", 1),
        ("\\b+", "an assertion cannot be repeated", 3),
    ],
)
def test_what_a_rule_may_not_have_is_refused_with_its_place(pattern, reason, offset):
    with pytest.raises(InvalidPattern) as refusal:
        parse(pattern)
    assert str(refusal.value).startswith(reason)
    assert str(refusal.value).endswith(f"at offset {offset}")


@pytest.mark.parametrize(
    ("pattern", "head"),
    [
        ("abc", "abc"),
        ("ab cd", "ab[\\x20]"),
        ("ab[\\t ]cd", "(?:ab[\\x09]cd|ab[\\x20])"),
        ("a(?:b c|d)e", "(?:a(?:d)e|a(?:b[\\x20]))"),
        ("(?:a b)+", "(?:a[\\x20])"),
        ("a(?: b)?c", "(?:ac|a(?:[\\x20]))"),
        ("\\bab\\S+", "\\bab(?:\\S)+"),
        ("a\\s", "(?:a[\\x09\\x0b\\x0c\\x0d]|a[\\x0a\\x20])"),
    ],
)
def test_the_head_ends_with_the_first_space_or_line_end(pattern, head):
    assert to_source(head_pattern(parse(pattern))) == head


@each_row(
    ("pattern", "firsts"),
    [
        ("abc", set()),
        ("[a-z]é", set()),
        ("密码|パス|x", {"密", "パ"}),
        ("\\b(?:é)?ñ", {"é", "ñ"}),
        ("(?:é){0,3}a", {"é"}),
        ("(?i:señal)", set()),
        ("(?i:é)", None),
        ("x*[^a]", None),
        (".a", None),
        ("\\S", None),
        ("\\xc3a", None),
        ("a|\\xc3", None),
    ],
)
def test_the_characters_beyond_ascii_that_a_match_can_begin_with_are_known(pattern, firsts):
    assert first_characters(parse(pattern)) == firsts


def test_groups_are_counted_and_kept_only_on_request():
    tree = parse("a(b)(?:c)(?i:d)|(e)")
    assert count_groups(tree) == 2
    assert re.compile(to_source(tree)).groups == 0
    assert re.compile(to_source(tree, catching=True)).groups == 2


ALPHABET = "ab "
atoms = st.sampled_from(["a", "b", " ", "[ab]", "[^a]", "\\s", "\\w", "."])


def _repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "{1,5}", "*?", "+?"])
    return st.builds(lambda node, count: f"(?:{node}){count}", inner, counts)


patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
        inner.map(lambda node: f"({node})"),
        _repeated(inner),
    ),
    max_leaves=6,
)
TEXTS = ["".join(signs) for length in range(6) for signs in itertools.product(ALPHABET, repeat=length)]


def matched(pattern: str) -> list[str]:
    compiled = re.compile(pattern, re.DOTALL)
    return [text for text in TEXTS if compiled.fullmatch(text)]


@settings(max_examples=150)
@given(patterns)
def test_a_pattern_read_and_written_again_is_the_same(pattern):
    assert matched(to_source(parse(pattern))) == matched(pattern)


@settings(max_examples=150)
@given(patterns)
def test_every_beginning_of_a_match_is_known_as_one(pattern):
    beginnings = re.compile(prefix_pattern(parse(pattern)), re.DOTALL)
    for text in matched(pattern):
        for end in range(len(text) + 1):
            assert beginnings.fullmatch(text[:end]), (text, end)


@settings(max_examples=150)
@given(patterns)
def test_what_is_known_as_a_beginning_can_become_a_match(pattern):
    tree = parse(pattern)
    whole = matched(pattern)
    # Only where all matches are short enough that the texts tried are all there are.
    assume(whole and _parser.parse(pattern).getwidth()[1] <= max(map(len, TEXTS)))
    known = set(matched(prefix_pattern(tree)))
    assert known == {text[:end] for text in whole for end in range(len(text) + 1)}


@settings(max_examples=150)
@given(patterns)
def test_a_relaxed_pattern_matches_whatever_the_pattern_does(pattern):
    assert set(matched(pattern)) <= set(matched(to_source(relax_pattern(parse(pattern)))))


@settings(max_examples=150)
@given(patterns)
def test_no_match_is_shorter_than_the_least_length_and_one_has_it(pattern):
    lengths = [len(text) for text in matched(pattern)]
    least = min_match_length(parse(pattern))
    assert min(lengths, default=least) >= least
    if least < 6 and lengths:
        assert least == min(lengths)


@settings(max_examples=150)
@given(patterns)
def test_every_match_begins_with_a_head_up_to_its_first_space(pattern):
    head = re.compile(to_source(head_pattern(parse(pattern))), re.DOTALL)
    for text in matched(pattern):
        assert head.fullmatch("".join(text.partition(" ")[:2])), text


@settings(max_examples=150)
@given(patterns)
def test_the_engine_agrees_with_python_about_the_subset(pattern):
    engine = re2.compile(f"(?s:{pattern})".encode(), options())
    assert [text for text in TEXTS if engine.fullmatch(text.encode())] == matched(pattern)
