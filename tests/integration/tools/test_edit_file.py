"""`edit_file` on real files (S3-11.edit, S3-12.4, S3-12.16)."""

import asyncio
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.modes import ToolGroup, ToolMode
from interlock.tools.builtins.edit_file import _Edit
from interlock.tools.files.text_format import TextFormat
from tests.harness.tool_calls import SECRET, ToolHarness
from tests.unit.sandbox.conftest import open_descriptors

MARK = "***REDACTED***"


async def edited(make_harness: ToolHarness, before: str | bytes, find: str, replace: str, **more) -> bytes:
    """The file's bytes after an edit that must work."""
    file = make_harness.write("f", before)
    await make_harness.ok("read_file", path="f")
    await make_harness.ok("edit_file", path="f", find=find, replace=replace, **more)
    return file.read_bytes()


def test_edit_file_group_and_modes(harness: ToolHarness):
    tool = harness.registry.entry("edit_file").tool
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.coding}
    assert tool.aliases == ("edit",)


# -- what is replaced, and how often --


async def test_one_occurrence_is_replaced_or_all_and_they_are_counted(harness: ToolHarness):
    """S3-12.16: one, all; no match is below."""
    file = harness.write("f", "a b a b a c\n")
    await harness.ok("read_file", path="f")
    result = await harness.ok("edit_file", path="f", find="c", replace="X")
    assert file.read_text() == "a b a b a X\n"
    assert (result.meta["replacements"], result.meta["occurrences"]) == (1, 1)
    assert result.stdout == "replaced 1 of 1 occurrence in f\n"
    result = await harness.ok("edit_file", path="f", find="a", replace="X", all=True)
    assert file.read_text() == "X b X b X X\n"
    assert (result.meta["replacements"], result.meta["occurrences"]) == (3, 3)
    assert result.stdout == "replaced 3 of 3 occurrences in f\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_several_occurrences_are_refused_with_their_lines(harness: ToolHarness, encoding):
    file = harness.write("f", "tea\nmilk\ntea, tea\n".encode(encoding))
    await harness.ok("read_file", path="f")
    for more in ({}, {"all": False}):
        result = await harness.call("edit_file", path="f", find="tea", replace="juice", **more)
        assert result.failure.error_code.value == "INVALID_ARGS"
        assert "occurs 3 times in f, on lines 1, 3, 3; nothing was changed" in result.failure.message
        assert all(word in result.failure.next_action for word in ("occurrence", "all", "longer find"))
    assert file.read_bytes().decode(encoding) == "tea\nmilk\ntea, tea\n"
    result = await harness.ok("edit_file", path="f", find="tea", replace="juice", occurrence=2)
    assert file.read_bytes().decode(encoding) == "tea\nmilk\njuice, tea\n"
    assert result.stdout == "replaced 1 of 3 occurrences in f\n"
    assert result.meta["replacements"] == 1


async def test_an_occurrence_that_is_not_there_is_refused(harness: ToolHarness):
    file = harness.write("f", "tea\ncake\n")
    await harness.ok("read_file", path="f")
    for arguments in ({"occurrence": 2}, {"occurrence": 0}, {"occurrence": 1, "all": True}):
        result = await harness.call("edit_file", path="f", find="tea", replace="juice", **arguments)
        assert result.failure.error_code.value == "INVALID_ARGS"
    assert file.read_text() == "tea\ncake\n"
    await harness.ok("edit_file", path="f", find="tea", replace="juice", occurrence=1)
    assert file.read_text() == "juice\ncake\n"


async def test_of_very_many_occurrences_the_first_lines_are_listed(harness: ToolHarness):
    harness.write("f", "a\n" * 10_000)
    await harness.pages("read_file", path="f")
    result = await harness.call("edit_file", path="f", find="a", replace="b")
    assert "occurs 10000 times in f, on lines 1, 2, " in result.failure.message
    assert ", 19, 20, …; nothing" in result.failure.message


async def test_occurrences_on_one_line_all_count(harness: ToolHarness):
    """An edit by lines once replaced one per line, and said nothing of how many."""
    assert await edited(harness, "aaa\naaa\n", "a", "b", occurrence=2) == b"aba\naaa\n"
    assert await edited(harness, "aaa\naaa\n", "a", "b", all=True) == b"bbb\nbbb\n"


async def test_occurrences_do_not_overlap(harness: ToolHarness):
    assert await edited(harness, "aaaaa", "aa", "b", all=True) == b"bba"
    assert await edited(harness, "ababab", "abab", "X", all=True) == b"Xab"


async def test_what_was_put_in_is_not_replaced_again(harness: ToolHarness):
    assert await edited(harness, "aa", "a", "aa", all=True) == b"aaaa"


async def test_several_lines_and_nothing_can_be_replaced(harness: ToolHarness):
    assert await edited(harness, "a\nb\nc\nd\n", "b\nc\n", "X\nY\nZ\n") == b"a\nX\nY\nZ\nd\n"
    assert await edited(harness, "a\nb\nc\n", "b\n", "") == b"a\nc\n"
    assert await edited(harness, "all", "all", "") == b""


LITERALS = [
    (".", "x"), ("a.c", "abc"), ("^a", "a"), ("a$", "a"), ("[ab]", "a"), ("(a)", "a"), ("a|b", "a"),
    ("a*", "aa"), ("\\d", "5"), ("\\n", "\n"), ("%s", "s"), ("$1", "1"), ("&", "x"), ("\\", "/"),
    ("a{2}", "aa"), ("?", "x"), ("/", "x"), ("\t", " "),
]  # fmt: skip


async def test_find_is_literal(harness: ToolHarness):
    for find, decoy in LITERALS:
        assert await edited(harness, f"{decoy} {find} {decoy}", find, "!") == f"{decoy} ! {decoy}".encode()


async def test_replace_is_literal(harness: ToolHarness):
    for replace in ("\\1", "$1", "\\g<0>", "&", "\\n", "%s", "{0}", "\\", "\\\\", "a/b", "$(id)", "`id`"):
        assert await edited(harness, "<x>", "x", replace) == f"<{replace}>".encode()


SED = [
    ("x/e", "id > PWNED"), ("x", "y/e"), ("x", "y/w PWNED"), ("x\nw PWNED", "y"), ("x", "y\nw PWNED"),
    ("x", "y/;e touch PWNED;s/a"), ("1e touch PWNED", "y"), ("-e", "1e touch PWNED"),
    ("--in-place=PWNED", "y"), ("x", "$(touch PWNED)"), ("x", "';touch PWNED;'"),
    ("{r /etc/passwd\n}", "y"),
]  # fmt: skip


async def test_crafted_texts_do_nothing_but_what_they_say(harness: ToolHarness):
    """A sed behind the tool once executed what its arguments and the file held."""
    for find, replace in SED:
        before = f"touch PWNED\n{find}\n"
        assert await edited(harness, before, find, replace) == f"touch PWNED\n{replace}\n".encode()
        assert [path.name for path in harness.root.iterdir()] == ["f"]
        assert not (harness.root.parent / "PWNED").exists()


# -- what is refused --


async def test_no_match_is_a_clear_failure_and_changes_nothing(harness: ToolHarness):
    file = harness.write("f", "one\ntwo\n")
    await harness.ok("read_file", path="f")
    was = file.stat()
    for find in ("three", "One", "one two", " one", "two\n\n"):
        result = await harness.call("edit_file", path="f", find=find, replace="x")
        assert result.failure.error_code.value == "EXECUTION_ERROR"
        assert "nothing was changed" in result.failure.message
        assert result.exit_code != 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (was.st_ino, was.st_mtime_ns)
    assert not list(harness.kept.entries(harness.session_id))


@pytest.mark.parametrize(
    "arguments",
    [
        {"find": "a", "replace": "a"},
        {"find": "", "replace": "a"},
        {"find": "a"},
        {"replace": "a"},
        {"find": "a", "replace": 1},
        {"find": "a", "replace": None},
        {"find": ["a"], "replace": "b"},
        {"find": "a", "replace": "b", "all": "false"},
        {"find": "a", "replace": "b", "all": 1},
        {"find": "a", "replace": "b", "occurrence": "1"},
        {"find": "a", "replace": "b", "regex": True},
        {"find": "\ud800", "replace": "b"},
        {"find": "a", "replace": "\udfff"},
    ],
)
async def test_odd_arguments_are_refused(harness: ToolHarness, arguments):
    file = harness.write("f", "a")
    await harness.ok("read_file", path="f")
    assert await harness.refused("edit_file", path="f", **arguments) == "INVALID_ARGS"
    assert file.read_text() == "a"


async def test_what_is_no_text_file_is_refused(harness: ToolHarness):
    harness.write("nul", b"a\0b")
    harness.write("late-nul", b"a" * 100_000 + b"\0")
    (harness.root / "folder").mkdir()
    (harness.outside / "f").write_text("a")
    (harness.root / "out").symlink_to(harness.outside / "f")
    for path in ("nul", "late-nul", "folder", "missing", "nul/f"):
        assert await harness.refused("edit_file", path=path, find="a", replace="b") == "EXECUTION_ERROR"
    for path in (".", "out", "../outside/f", ".git/config"):
        assert await harness.refused("edit_file", path=path, find="a", replace="b") == "PATH_DENIED"
    assert (harness.outside / "f").read_text() == "a"


async def test_a_file_over_the_limit_is_refused_before_and_after(harness: ToolHarness):
    """S4-T5."""
    harness.narrow(write=100)
    file = harness.write("f", "a" * 60)
    await harness.ok("read_file", path="f")
    growing = {"path": "f", "find": "a", "replace": "bb", "all": True}
    assert await harness.refused("edit_file", growing) == "LIMIT_EXCEEDED"
    file.write_text("a" * 101)
    await harness.ok("read_file", path="f")
    assert await harness.refused("edit_file", path="f", find="a", replace="") == "LIMIT_EXCEEDED"
    assert file.read_text() == "a" * 101


async def test_a_file_over_the_read_limit_is_refused(harness: ToolHarness):
    """S4 AC4: to edit a file is to read it."""
    file = harness.write("f", "old " + "x" * 996)
    await harness.ok("read_file", path="f")
    harness.narrow(read=999)
    result = await harness.call("edit_file", path="f", find="old", replace="new")
    assert result.failure.error_code.value == "LIMIT_EXCEEDED"
    assert "1000 bytes exceed the read limit of 999" in result.failure.message
    harness.narrow(read=1000)
    await harness.ok("edit_file", path="f", find="old", replace="new")
    assert file.read_text().startswith("new ")


async def test_a_read_only_file_is_refused(harness: ToolHarness):
    file = harness.write("f", "a")
    await harness.ok("read_file", path="f")
    file.chmod(0o555)
    assert await harness.refused("edit_file", path="f", find="a", replace="b") == "EXECUTION_ERROR"


# -- encodings and line ends --


@pytest.mark.parametrize(
    ("before", "find", "replace", "after"),
    [
        (b"a\r\nb\r\n", "a\nb", "x\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "\nb", "\nc", b"a\r\nc\r\n"),
        (b"a\r\nb", "\n", "\n\n", b"a\r\n\r\nb"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb", "\r", "", b"a\nb"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\rb\r", "a\rb", "x\ry", b"x\ry\r"),
        (b"\xef\xbb\xbfab", "a", "x", b"\xef\xbb\xbfxb"),
        (b"caf\xe9 th\xe9", "th\xe9", "t\xfc", b"caf\xe9 t\xfc"),
        ("aü😀\nb".encode("utf-16"), "ü😀\n", "x", "axb".encode("utf-16")),
        (b"\xfe\xff" + "aāb".encode("utf-16-be"), "ā", "a", b"\xfe\xff" + "aab".encode("utf-16-be")),
        ("a\r\nb".encode("utf-16"), "a\nb", "x\ny", "x\r\ny".encode("utf-16")),
    ],
)  # fmt: skip
async def test_encoding_mark_and_line_ends_are_kept(harness: ToolHarness, before, find, replace, after):
    assert await edited(harness, before, find, replace) == after


async def test_wide_text_is_found_at_whole_characters_only(harness: ToolHarness):
    """In UTF-16 the two bytes of one character can be found across two others."""
    text = "\u4161\u4161"
    assert "\u6141".encode("utf-16-le") in text.encode("utf-16-le")
    file = harness.write("f", text.encode("utf-16"))
    await harness.ok("read_file", path="f")
    assert await harness.refused("edit_file", path="f", find="\u6141", replace="x") == "EXECUTION_ERROR"
    assert file.read_bytes() == text.encode("utf-16")


async def test_bytes_that_are_no_text_stay_as_they_are(harness: ToolHarness):
    for tail in (b"\xff\xfe\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80"):
        before = b"name = old\n" + tail + b"\nname = old\n"
        after = await edited(harness, before, "name = old", "name = new", all=True)
        assert after == before.replace(b"old", b"new")


async def test_a_file_is_edited_in_the_encoding_in_which_it_was_shown(harness: ToolHarness):
    """A byte far down makes it no UTF-8; what was shown then is what must be found."""
    before = "ü\n".encode() + b"x\n" * 40_000 + b"\xfc\n"
    harness.write("f", before)
    pages = await harness.pages("read_file", path="f")
    first = pages[0].stdout.splitlines()[0]
    await harness.ok("edit_file", path="f", find=first, replace="y")
    assert (harness.root / "f").read_bytes() == b"y\n" + before[3:]


async def test_a_character_that_the_encoding_lacks_is_told(harness: ToolHarness):
    file = harness.write("f", b"caf\xe9")
    await harness.ok("read_file", path="f")
    result = await harness.call("edit_file", path="f", find="caf", replace="€")
    assert result.failure.error_code.value == "INVALID_ARGS"
    assert "replace" in result.failure.message
    assert file.read_bytes() == b"caf\xe9"


# -- masks --


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_a_mask_never_replaces_what_it_hides(harness: ToolHarness, encoding):
    before = f"key = {SECRET}\nport = 1\n"
    file = harness.write("f", before.encode(encoding))
    await harness.ok("read_file", path="f")
    for find, replace in (
        (f"key = {SECRET}", f"key = {MARK}"),
        (f"key = {MARK}\nport = 1", f"key = {MARK}\nport = 2"),
        (f"key = {MARK}", "key = none"),
        ("port", f"{MARK}"),
    ):
        code = await harness.refused("edit_file", path="f", find=find, replace=replace)
        assert code == "REDACTED_CONTENT"
    await harness.ok("edit_file", path="f", find="port = 1", replace="port = 2")
    assert file.read_bytes().decode(encoding) == before.replace("1", "2")


async def test_a_mark_that_the_file_has_itself_may_be_edited(harness: ToolHarness):
    assert await edited(harness, f"a {MARK} b", f"a {MARK}", f"{MARK} a") == f"{MARK} a b".encode()
    assert await edited(harness, f"a {MARK} b", MARK, "x") == b"a x b"


# -- after an edit --


async def test_edits_follow_one_another_without_reading_again(harness: ToolHarness):
    file = harness.write("f", "one two three\n")
    await harness.ok("read_file", path="f")
    for find, replace in (("one", "1"), ("two", "second"), ("three", ""), ("1 second", "all")):
        await harness.ok("edit_file", path="f", find=find, replace=replace)
    assert file.read_text() == "all \n"
    await harness.ok("write_file", path="f", content="whole")


async def test_of_two_edits_at_once_none_is_lost(harness: ToolHarness):
    file = harness.write("f", "".join(f"<{number}>" for number in range(20)))
    await harness.ok("read_file", path="f")
    calls = [
        harness.call("edit_file", path="f", find=f"<{number}>", replace=f"[{number}]")
        for number in range(20)
    ]
    done = [result.ok for result in await asyncio.gather(*calls)]
    text = file.read_text()
    assert [f"[{number}]" in text for number in range(20)] == done
    assert any(done)


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=4)


@given(
    text=st.text("ab\n", min_size=1, max_size=30),
    find=st.text("ab\n", min_size=1, max_size=3),
    replace=st.text("abc", max_size=4),
    spans=SPANS,
    every=st.booleans(),
)
def test_what_was_known_is_known_where_it_is_after_the_edit(text, find, replace, spans, every):
    """A model of the known parts: every character carries whether it was seen."""
    if find not in text:
        return
    edit = _Edit(text.encode(), TextFormat(), find, replace, "f")
    places = edit.places if every else edit.places[:1]
    seen = [any(begin <= at < end for begin, end in spans) for at in range(len(text))]
    for at in places:
        seen[at : at + len(find)] = [True] * len(find)
    known = runs(seen)
    expected: list[bool] = []
    position = 0
    for at in places:
        expected += seen[position:at] + [True] * len(replace)
        position = at + len(find)
    expected += seen[position:]
    after = edit.applied(places)
    assert after.decode() == text.replace(find, replace, -1 if every else 1)
    moved = edit.moved(known, places)
    claimed = [any(begin <= at < end for begin, end in moved) for at in range(len(after))]
    assert claimed == expected


def runs(flags: list[bool]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for at, flag in enumerate(flags):
        if flag and found and found[-1][1] == at:
            found[-1] = (found[-1][0], at + 1)
        elif flag:
            found.append((at, at + 1))
    return found


async def test_many_occurrences_are_replaced_in_good_time(harness: ToolHarness):
    file = harness.write("f", "ab" * 200_000)
    for _ in range(3):
        await harness.pages("read_file", path="f")
    await harness.ok("edit_file", path="f", find="a", replace="xyz", all=True)
    assert file.read_text() == "xyzb" * 200_000


async def test_an_edited_program_stays_one(harness: ToolHarness):
    file = harness.write("run.sh", "#!/bin/sh\necho old\n")
    file.chmod(0o755)
    await harness.ok("read_file", path="run.sh")
    await harness.ok("edit_file", path="run.sh", find="old", replace="new")
    assert subprocess.run([file], capture_output=True, text=True).stdout == "new\n"


async def test_no_descriptor_stays_open(harness: ToolHarness):
    await edited(harness, "a", "a", "b")
    before = open_descriptors()
    for _ in range(5):
        await edited(harness, "a", "a", "b")
        await harness.refused("edit_file", path="f", find="zzz", replace="b")
        await harness.refused("edit_file", path="missing", find="zzz", replace="b")
    assert open_descriptors() == before
