"""`edit_file` on real files (S3-11.edit, S3-12.4, S3-12.16)."""

import asyncio
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.modes import ToolGroup, ToolMode
from interlock.tools.builtins.edit_file import _Edit
from interlock.tools.files.text import TextForm
from tests.integration.workbench import SECRET, Workbench
from tests.unit.sandbox.conftest import open_descriptors

MARK = "***REDACTED***"


async def edited(bench: Workbench, before: str | bytes, find: str, replace: str, **more) -> bytes:
    """The file's bytes after an edit that must work."""
    file = bench.write("f", before)
    await bench.ok("read_file", path="f")
    await bench.ok("edit_file", path="f", find=find, replace=replace, **more)
    return file.read_bytes()


def test_edit_file_group_and_modes(workbench: Workbench):
    tool = workbench.registry.entry("edit_file").tool
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.coding}
    assert tool.aliases == ("edit",)


# -- what is replaced, and how often --


async def test_one_occurrence_is_replaced_or_all_and_they_are_counted(workbench: Workbench):
    """S3-12.16: one, all; no match is below."""
    file = workbench.write("f", "a b a b a c\n")
    await workbench.ok("read_file", path="f")
    result = await workbench.ok("edit_file", path="f", find="c", replace="X")
    assert file.read_text() == "a b a b a X\n"
    assert (result.meta["replacements"], result.meta["occurrences"]) == (1, 1)
    assert result.stdout == "replaced 1 of 1 occurrence in f\n"
    result = await workbench.ok("edit_file", path="f", find="a", replace="X", all=True)
    assert file.read_text() == "X b X b X X\n"
    assert (result.meta["replacements"], result.meta["occurrences"]) == (3, 3)
    assert result.stdout == "replaced 3 of 3 occurrences in f\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_several_occurrences_are_refused_with_their_lines(workbench: Workbench, encoding):
    file = workbench.write("f", "tea\nmilk\ntea, tea\n".encode(encoding))
    await workbench.ok("read_file", path="f")
    for more in ({}, {"all": False}):
        result = await workbench.call("edit_file", path="f", find="tea", replace="juice", **more)
        assert result.failure.error_code.value == "INVALID_ARGS"
        assert "occurs 3 times in f, on lines 1, 3, 3; nothing was changed" in result.failure.message
        assert all(word in result.failure.next_action for word in ("occurrence", "all", "longer find"))
    assert file.read_bytes().decode(encoding) == "tea\nmilk\ntea, tea\n"
    result = await workbench.ok("edit_file", path="f", find="tea", replace="juice", occurrence=2)
    assert file.read_bytes().decode(encoding) == "tea\nmilk\njuice, tea\n"
    assert result.stdout == "replaced 1 of 3 occurrences in f\n"
    assert result.meta["replacements"] == 1


async def test_an_occurrence_that_is_not_there_is_refused(workbench: Workbench):
    file = workbench.write("f", "tea\ncake\n")
    await workbench.ok("read_file", path="f")
    for arguments in ({"occurrence": 2}, {"occurrence": 0}, {"occurrence": 1, "all": True}):
        result = await workbench.call("edit_file", path="f", find="tea", replace="juice", **arguments)
        assert result.failure.error_code.value == "INVALID_ARGS"
    assert file.read_text() == "tea\ncake\n"
    await workbench.ok("edit_file", path="f", find="tea", replace="juice", occurrence=1)
    assert file.read_text() == "juice\ncake\n"


async def test_of_very_many_occurrences_the_first_lines_are_listed(workbench: Workbench):
    workbench.write("f", "a\n" * 10_000)
    await workbench.pages("read_file", path="f")
    result = await workbench.call("edit_file", path="f", find="a", replace="b")
    assert "occurs 10000 times in f, on lines 1, 2, " in result.failure.message
    assert ", 19, 20, …; nothing" in result.failure.message


async def test_occurrences_on_one_line_all_count(workbench: Workbench):
    """An edit by lines once replaced one per line, and said nothing of how many."""
    assert await edited(workbench, "aaa\naaa\n", "a", "b", occurrence=2) == b"aba\naaa\n"
    assert await edited(workbench, "aaa\naaa\n", "a", "b", all=True) == b"bbb\nbbb\n"


async def test_occurrences_do_not_overlap(workbench: Workbench):
    assert await edited(workbench, "aaaaa", "aa", "b", all=True) == b"bba"
    assert await edited(workbench, "ababab", "abab", "X", all=True) == b"Xab"


async def test_what_was_put_in_is_not_replaced_again(workbench: Workbench):
    assert await edited(workbench, "aa", "a", "aa", all=True) == b"aaaa"


async def test_several_lines_and_nothing_can_be_replaced(workbench: Workbench):
    assert await edited(workbench, "a\nb\nc\nd\n", "b\nc\n", "X\nY\nZ\n") == b"a\nX\nY\nZ\nd\n"
    assert await edited(workbench, "a\nb\nc\n", "b\n", "") == b"a\nc\n"
    assert await edited(workbench, "all", "all", "") == b""


LITERALS = [
    (".", "x"), ("a.c", "abc"), ("^a", "a"), ("a$", "a"), ("[ab]", "a"), ("(a)", "a"), ("a|b", "a"),
    ("a*", "aa"), ("\\d", "5"), ("\\n", "\n"), ("%s", "s"), ("$1", "1"), ("&", "x"), ("\\", "/"),
    ("a{2}", "aa"), ("?", "x"), ("/", "x"), ("\t", " "),
]  # fmt: skip


async def test_find_is_literal(workbench: Workbench):
    for find, decoy in LITERALS:
        assert (
            await edited(workbench, f"{decoy} {find} {decoy}", find, "!") == f"{decoy} ! {decoy}".encode()
        )


async def test_replace_is_literal(workbench: Workbench):
    for replace in ("\\1", "$1", "\\g<0>", "&", "\\n", "%s", "{0}", "\\", "\\\\", "a/b", "$(id)", "`id`"):
        assert await edited(workbench, "<x>", "x", replace) == f"<{replace}>".encode()


SED = [
    ("x/e", "id > PWNED"), ("x", "y/e"), ("x", "y/w PWNED"), ("x\nw PWNED", "y"), ("x", "y\nw PWNED"),
    ("x", "y/;e touch PWNED;s/a"), ("1e touch PWNED", "y"), ("-e", "1e touch PWNED"),
    ("--in-place=PWNED", "y"), ("x", "$(touch PWNED)"), ("x", "';touch PWNED;'"),
    ("{r /etc/passwd\n}", "y"),
]  # fmt: skip


async def test_crafted_texts_do_nothing_but_what_they_say(workbench: Workbench):
    """A sed behind the tool once executed what its arguments and the file held."""
    for find, replace in SED:
        before = f"touch PWNED\n{find}\n"
        assert await edited(workbench, before, find, replace) == f"touch PWNED\n{replace}\n".encode()
        assert [path.name for path in workbench.root.iterdir()] == ["f"]
        assert not (workbench.root.parent / "PWNED").exists()


# -- what is refused --


async def test_no_match_is_a_clear_failure_and_changes_nothing(workbench: Workbench):
    file = workbench.write("f", "one\ntwo\n")
    await workbench.ok("read_file", path="f")
    was = file.stat()
    for find in ("three", "One", "one two", " one", "two\n\n"):
        result = await workbench.call("edit_file", path="f", find=find, replace="x")
        assert result.failure.error_code.value == "EXECUTION_ERROR"
        assert "nothing was changed" in result.failure.message
        assert result.exit_code != 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (was.st_ino, was.st_mtime_ns)
    assert not list(workbench.kept.entries(workbench.session_id))


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
async def test_odd_arguments_are_refused(workbench: Workbench, arguments):
    file = workbench.write("f", "a")
    await workbench.ok("read_file", path="f")
    assert await workbench.refused("edit_file", path="f", **arguments) == "INVALID_ARGS"
    assert file.read_text() == "a"


async def test_what_is_no_text_file_is_refused(workbench: Workbench):
    workbench.write("nul", b"a\0b")
    workbench.write("late-nul", b"a" * 100_000 + b"\0")
    (workbench.root / "folder").mkdir()
    (workbench.outside / "f").write_text("a")
    (workbench.root / "out").symlink_to(workbench.outside / "f")
    for path in ("nul", "late-nul", "folder", "missing", "nul/f"):
        assert await workbench.refused("edit_file", path=path, find="a", replace="b") == "EXECUTION_ERROR"
    for path in (".", "out", "../outside/f", ".git/config"):
        assert await workbench.refused("edit_file", path=path, find="a", replace="b") == "PATH_DENIED"
    assert (workbench.outside / "f").read_text() == "a"


async def test_a_file_over_the_limit_is_refused_before_and_after(workbench: Workbench):
    """S4-T5."""
    workbench.narrow(write=100)
    file = workbench.write("f", "a" * 60)
    await workbench.ok("read_file", path="f")
    growing = {"path": "f", "find": "a", "replace": "bb", "all": True}
    assert await workbench.refused("edit_file", growing) == "LIMIT_EXCEEDED"
    file.write_text("a" * 101)
    await workbench.ok("read_file", path="f")
    assert await workbench.refused("edit_file", path="f", find="a", replace="") == "LIMIT_EXCEEDED"
    assert file.read_text() == "a" * 101


async def test_a_file_over_the_read_limit_is_refused(workbench: Workbench):
    """S4 AC4: to edit a file is to read it."""
    file = workbench.write("f", "old " + "x" * 996)
    await workbench.ok("read_file", path="f")
    workbench.narrow(read=999)
    result = await workbench.call("edit_file", path="f", find="old", replace="new")
    assert result.failure.error_code.value == "LIMIT_EXCEEDED"
    assert "1000 bytes are more than the 999 that may be read" in result.failure.message
    workbench.narrow(read=1000)
    await workbench.ok("edit_file", path="f", find="old", replace="new")
    assert file.read_text().startswith("new ")


async def test_a_read_only_file_is_refused(workbench: Workbench):
    file = workbench.write("f", "a")
    await workbench.ok("read_file", path="f")
    file.chmod(0o555)
    assert await workbench.refused("edit_file", path="f", find="a", replace="b") == "EXECUTION_ERROR"


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
async def test_encoding_mark_and_line_ends_are_kept(workbench: Workbench, before, find, replace, after):
    assert await edited(workbench, before, find, replace) == after


async def test_wide_text_is_found_at_whole_characters_only(workbench: Workbench):
    """In UTF-16 the two bytes of one character can be found across two others."""
    text = "\u4161\u4161"
    assert "\u6141".encode("utf-16-le") in text.encode("utf-16-le")
    file = workbench.write("f", text.encode("utf-16"))
    await workbench.ok("read_file", path="f")
    assert await workbench.refused("edit_file", path="f", find="\u6141", replace="x") == "EXECUTION_ERROR"
    assert file.read_bytes() == text.encode("utf-16")


async def test_bytes_that_are_no_text_stay_as_they_are(workbench: Workbench):
    for tail in (b"\xff\xfe\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80"):
        before = b"name = old\n" + tail + b"\nname = old\n"
        after = await edited(workbench, before, "name = old", "name = new", all=True)
        assert after == before.replace(b"old", b"new")


async def test_a_file_is_edited_in_the_encoding_in_which_it_was_shown(workbench: Workbench):
    """A byte far down makes it no UTF-8; what was shown then is what must be found."""
    before = "ü\n".encode() + b"x\n" * 40_000 + b"\xfc\n"
    workbench.write("f", before)
    pages = await workbench.pages("read_file", path="f")
    first = pages[0].stdout.splitlines()[0]
    await workbench.ok("edit_file", path="f", find=first, replace="y")
    assert (workbench.root / "f").read_bytes() == b"y\n" + before[3:]


async def test_a_character_that_the_encoding_lacks_is_told(workbench: Workbench):
    file = workbench.write("f", b"caf\xe9")
    await workbench.ok("read_file", path="f")
    result = await workbench.call("edit_file", path="f", find="caf", replace="€")
    assert result.failure.error_code.value == "INVALID_ARGS"
    assert "replace" in result.failure.message
    assert file.read_bytes() == b"caf\xe9"


# -- masks --


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_a_mask_never_replaces_what_it_hides(workbench: Workbench, encoding):
    before = f"key = {SECRET}\nport = 1\n"
    file = workbench.write("f", before.encode(encoding))
    await workbench.ok("read_file", path="f")
    for find, replace in (
        (f"key = {SECRET}", f"key = {MARK}"),
        (f"key = {MARK}\nport = 1", f"key = {MARK}\nport = 2"),
        (f"key = {MARK}", "key = none"),
        ("port", f"{MARK}"),
    ):
        code = await workbench.refused("edit_file", path="f", find=find, replace=replace)
        assert code == "REDACTED_CONTENT"
    await workbench.ok("edit_file", path="f", find="port = 1", replace="port = 2")
    assert file.read_bytes().decode(encoding) == before.replace("1", "2")


async def test_a_mark_that_the_file_has_itself_may_be_edited(workbench: Workbench):
    assert await edited(workbench, f"a {MARK} b", f"a {MARK}", f"{MARK} a") == f"{MARK} a b".encode()
    assert await edited(workbench, f"a {MARK} b", MARK, "x") == b"a x b"


# -- after an edit --


async def test_edits_follow_one_another_without_reading_again(workbench: Workbench):
    file = workbench.write("f", "one two three\n")
    await workbench.ok("read_file", path="f")
    for find, replace in (("one", "1"), ("two", "second"), ("three", ""), ("1 second", "all")):
        await workbench.ok("edit_file", path="f", find=find, replace=replace)
    assert file.read_text() == "all \n"
    await workbench.ok("write_file", path="f", content="whole")


async def test_of_two_edits_at_once_none_is_lost(workbench: Workbench):
    file = workbench.write("f", "".join(f"<{number}>" for number in range(20)))
    await workbench.ok("read_file", path="f")
    calls = [
        workbench.call("edit_file", path="f", find=f"<{number}>", replace=f"[{number}]")
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
    edit = _Edit(text.encode(), TextForm(), find, replace, "f")
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


async def test_many_occurrences_are_replaced_in_good_time(workbench: Workbench):
    file = workbench.write("f", "ab" * 200_000)
    for _ in range(3):
        await workbench.pages("read_file", path="f")
    await workbench.ok("edit_file", path="f", find="a", replace="xyz", all=True)
    assert file.read_text() == "xyzb" * 200_000


async def test_an_edited_program_stays_one(workbench: Workbench):
    file = workbench.write("run.sh", "#!/bin/sh\necho old\n")
    file.chmod(0o755)
    await workbench.ok("read_file", path="run.sh")
    await workbench.ok("edit_file", path="run.sh", find="old", replace="new")
    assert subprocess.run([file], capture_output=True, text=True).stdout == "new\n"


async def test_no_descriptor_stays_open(workbench: Workbench):
    await edited(workbench, "a", "a", "b")
    before = open_descriptors()
    for _ in range(5):
        await edited(workbench, "a", "a", "b")
        await workbench.refused("edit_file", path="f", find="zzz", replace="b")
        await workbench.refused("edit_file", path="missing", find="zzz", replace="b")
    assert open_descriptors() == before
