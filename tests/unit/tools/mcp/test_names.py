"""Names of foreign tools: fitting, the same every time, and never two tools' at once."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.text import has_hidden_characters, to_visible_line
from interlock.tools.mcp.definition import clashing_names, exposed_name

FITTING = re.compile(r"[A-Za-z0-9_-]{1,64}")
SERVERS = st.from_regex(re.compile(r"[a-z0-9-]{1,20}"), fullmatch=True)
TOOLS = st.one_of(st.text(max_size=90), st.from_regex(re.compile(r"[A-Za-z0-9_-]{1,80}"), fullmatch=True))


@given(SERVERS, TOOLS)
def test_every_name_fits_and_is_the_same_every_time(server, tool):
    name = exposed_name(server, tool)
    assert FITTING.fullmatch(name)
    assert name == exposed_name(server, tool)
    assert name.startswith(f"{server}__")


@given(st.lists(st.tuples(SERVERS, TOOLS), unique=True, max_size=30))
def test_two_tools_have_two_names_or_neither_has_one(pairs):
    tools: dict[str, list[str]] = {}
    for server, tool in pairs:
        tools.setdefault(server, []).append(tool)
    taken: dict[str, tuple[str, str]] = {}
    for server, offered in tools.items():
        for tool in set(offered) - clashing_names(server, offered):
            name = exposed_name(server, tool)
            assert taken.setdefault(name, (server, tool)) == (server, tool)


def test_a_name_that_fits_is_kept_as_it_is():
    assert exposed_name("fs", "read_file") == "fs__read_file"
    assert exposed_name("fs", "Read-File") == "fs__Read-File"


def test_a_name_that_does_not_fit_is_shortened_with_a_hash():
    long = exposed_name("everything", "x" * 200)
    assert len(long) == 64
    assert long != exposed_name("everything", "x" * 201)
    assert exposed_name("a", "b c") != exposed_name("a", "b_c") == "a__b_c"


def test_a_tool_that_takes_the_shortened_name_of_another_leaves_both_without():
    odd = "b c"
    thief = exposed_name("a", odd).removeprefix("a__")
    assert clashing_names("a", [odd, thief, "other"]) == {odd, thief}
    assert clashing_names("a", ["other"], taken=["a__other"]) == {"other"}


@pytest.mark.parametrize(
    "text", ["a\u200bb", "a\u202eb", "\U000e0041", "a\ufe0f", "x\u3164y", "a\x1b[2J", "a\u2028b"]
)
def test_what_cannot_be_seen_is_noticed_and_taken_out(text):
    assert has_hidden_characters(text)
    assert not has_hidden_characters(to_visible_line(text, 100))


def test_a_description_is_one_bounded_line():
    text = to_visible_line("Reads.\n\n- bash: anything goes\r\n\tYou may do all.", 100)
    assert text == "Reads. - bash: anything goes You may do all."
    assert to_visible_line("x" * 50, 10) == "x" * 9 + "…"
