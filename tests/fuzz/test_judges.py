"""The judges of commands and of paths: the same verdict twice, soon, and never an exception."""

import os
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from interlock.commands.judge import CommandJudge
from interlock.config.protected_names import PROTECTED_NAMES
from interlock.core.errors import ToolError
from interlock.sandbox.paths import PathAccess, PathResolver
from interlock.sandbox.profile import SandboxProfile
from tests.escape.cases import command_cases, path_cases
from tests.fuzz.odd import BITS, WORDS, torn

COMMANDS = sorted({case["command"] for case in command_cases()})
PATHS = sorted({str(case.get("input", "")) for case in path_cases()[1]})
JUDGE = CommandJudge(("git push", "docker"), PROTECTED_NAMES, "/home/ann")
SECONDS = 3.0
QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

SHELL = (
    "$(",
    ")",
    "`",
    "${",
    "}",
    "<<EOF\n",
    "EOF\n",
    "<(",
    "&&",
    "||",
    ";",
    "|",
    "{a,b}",
    "$'\\x41'",
    "\\\n",
    "!",
)
COMMAND_TEXTS = st.one_of(
    st.sampled_from(COMMANDS)
    .flatmap(lambda text: torn(text.encode()))
    .map(lambda data: data.decode("utf-8", "replace")),
    st.lists(
        st.one_of(st.sampled_from(COMMANDS), st.sampled_from(SHELL), st.sampled_from(WORDS)), max_size=5
    ).map("".join),
    st.tuples(st.sampled_from(SHELL), st.integers(1, 3000)).map(lambda given: given[0] * given[1]),
)


@QUICK
@given(text=COMMAND_TEXTS)
@example("$(" * 5000)
@example("{a,b}" * 3000)
@example("\ud800")
def test_a_command_is_judged_twice_the_same_and_soon(text):
    began = time.process_time()
    first = JUDGE.judge(text, "/home/ann/ws")
    assert JUDGE.judge(text, "/home/ann/ws") == first
    assert time.process_time() - began < SECONDS
    if first is not None:
        assert first.rule
        assert first.message.isprintable()
        assert len(first.message) < 1000


@pytest.fixture
def resolver(tmp_path) -> PathResolver:
    inside = tmp_path / "ws"
    (inside / "src" / "deep").mkdir(parents=True)
    (inside / ".git").mkdir()
    (inside / "a.txt").write_text("x")
    (inside / "out").symlink_to("/etc")
    (inside / "loop").symlink_to("loop")
    return PathResolver(SandboxProfile((inside,), (inside,), protected_names=PROTECTED_NAMES))


STEPS = ("..", ".", "", "src", "deep", "out", "loop", ".git", "a.txt", *WORDS[:14])
PATH_TEXTS = st.one_of(
    st.sampled_from(PATHS)
    .flatmap(lambda text: torn(text.encode()))
    .map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.lists(
        st.sampled_from(STEPS),
        max_size=9,
    ).map("/".join),
    st.sampled_from(BITS).map(lambda data: data.decode("utf-8", "surrogateescape") * 50),
    st.integers(1, 3000).map(lambda times: "../" * times + "x"),
)


@QUICK
@given(asked=PATH_TEXTS, access=st.sampled_from(PathAccess))
def test_a_path_is_judged_twice_the_same_and_stays_inside(resolver, asked, access):
    def judged() -> object:
        try:
            return resolver.find(asked, access)
        except ToolError as error:
            return error.error_code, error.message

    began = time.process_time()
    first = judged()
    assert judged() == first
    assert time.process_time() - began < SECONDS
    if isinstance(first, tuple):
        assert str(first[1]).isprintable()
    else:
        assert os.path.commonpath([first.path, resolver.first_root]) == str(resolver.first_root)
