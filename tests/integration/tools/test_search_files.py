"""`search_files` on real files with the real rg: what is found (S3-11.grep, S3-12.4)."""

import codecs
import json
import os

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.redaction.redactor import Redactor
from interlock.tools.builtins.search_files import SearchFilesTool
from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.searching import found


def test_search_files_group_and_modes():
    tool = SearchFilesTool(Redactor(), None, None)
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.chat, ToolMode.plan, ToolMode.coding}
    assert tool.aliases == ("grep", "fs.search")
    assert "program:rg" in tool.needs


# -- hits --


async def test_each_match_is_file_line_and_text_in_the_order_of_paths(harness: ToolHarness):
    harness.write("b/z.txt", "x\nneedle one\n")
    harness.write("b.txt", "needle two\n\nneedle three")
    harness.write("B.txt", "needle four\n")
    harness.write(".hidden", "a needle\n")
    result = await harness.ok("search_files", pattern="needle")
    assert result.stdout == (
        ".hidden:1:a needle\nB.txt:1:needle four\n"
        "b/z.txt:2:needle one\nb.txt:1:needle two\nb.txt:3:needle three\n"
    )
    assert result.meta == {"path": ".", "matches": 5}
    assert result.stderr == ""
    assert result.next_page_cursor is None


async def test_no_match_is_a_success(harness: ToolHarness):
    harness.write("a.txt", "hay\n")
    result = await harness.ok("search_files", pattern="needle")
    assert (result.exit_code, result.stdout, result.meta["matches"]) == (0, "", 0)


async def test_a_single_file_can_be_searched(harness: ToolHarness):
    harness.write("src/a.txt", "one\ntwo\n")
    harness.write("src/b.txt", "two\n")
    assert await found(harness, "two", path="src/a.txt") == ["src/a.txt:2:two"]
    assert await found(harness, "two", path="src") == ["src/a.txt:2:two", "src/b.txt:1:two"]
    assert await found(harness, "two", path=str(harness.root / "src/b.txt")) == ["src/b.txt:1:two"]


@pytest.mark.parametrize(
    ("pattern", "hits"),
    [
        ("Foo", ["1"]),
        ("(?i)foo", ["1", "2"]),
        (r"^\w+$", ["1", "2", "4"]),
        (r"a\.b", ["3"]),
        ("a.b", ["3", "4"]),
        ("é", ["5"]),
        ("x{2,}", ["6"]),
        ("-v", ["7"]),
        ("^$", ["8"]),
    ],
)
async def test_patterns_are_regular_expressions(harness: ToolHarness, pattern, hits):
    harness.write("a.txt", "Foo\nfoo\na.b\naxb\ncafé !\nxx !\n-v !\n\n")
    assert [line.split(":")[1] for line in await found(harness, pattern)] == hits


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**", ["src/b.py", "src/b.ts", "src/deep/c.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("*.{ts,md}", ["r.md", "src/b.ts"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("?.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("*", ["!x", "-g", "a.py", "a:b", "r.md", "src/b.py", "src/b.ts", "src/deep/c.py"]),
        ("**/*", ["!x", "-g", "a.py", "a:b", "r.md", "src/b.py", "src/b.ts", "src/deep/c.py"]),
        ("!*", ["!x"]),
        ("-*", ["-g"]),
        ("a:*", ["a:b"]),
        ("include:py", []),
        ("nothing", []),
        ("[", []),
        ("{a", []),
    ],
)
async def test_a_glob_chooses_files_as_in_find_files(harness: ToolHarness, glob, files):
    for path in (
        "a.py",
        "src/b.py",
        "src/b.ts",
        "src/deep/c.py",
        "r.md",
        "!x",
        "-g",
        "a:b",
        "ignored/d.py",
    ):
        harness.write(path, "needle\n")
    harness.write(".gitignore", "ignored/\n")
    (harness.root / ".git").mkdir()
    assert [line.removesuffix(":1:needle") for line in await found(harness, "needle", glob=glob)] == files


# -- what is searched --


async def test_files_that_only_rg_knows_hide_nothing(harness: ToolHarness):
    harness.write("a.txt", "needle\n")
    for folder in (harness.root, harness.root.parent):
        for name in (".ignore", ".rgignore"):
            (folder / name).write_text("a.txt\n")
    assert await found(harness, "needle") == ["a.txt:1:needle"]


async def test_what_git_ignores_is_searched_only_by_name(harness: ToolHarness):
    (harness.root / ".git").mkdir()
    harness.write(".git/config", "needle\n")
    harness.write(".gitignore", "build/\n*.log\n")
    for path in ("build/out.txt", "app.log", "app.txt"):
        harness.write(path, "needle\n")
    assert await found(harness, "needle") == ["app.txt:1:needle"]
    assert await found(harness, "needle", glob="*") == ["app.txt:1:needle"]
    assert await found(harness, "needle", path="build") == ["build/out.txt:1:needle"]
    assert await found(harness, "needle", path="app.log") == ["app.log:1:needle"]


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF8, b""])
async def test_lines_are_right_in_any_encoding(harness: ToolHarness, mark):
    encoding = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(mark, "utf-8")
    text = "needle at once\n" + "füller 😀\n" * 3000 + "ein 日本 needle\r\nend needle"
    harness.write("a.txt", mark + text.encode(encoding))
    assert await found(harness, "needle") == [
        "a.txt:1:needle at once",
        "a.txt:3002:ein 日本 needle",
        "a.txt:3003:end needle",
    ]


async def test_a_latin_1_line_is_shown_as_read_file_shows_it(harness: ToolHarness):
    harness.write("a.txt", "grün needle\n".encode("latin-1"))
    assert await found(harness, "needle") == ["a.txt:1:grün needle"]


async def test_windows_line_ends_are_line_ends(harness: ToolHarness):
    harness.write("a.txt", "one needle\r\ntwo\r\n")
    assert await found(harness, "needle$") == ["a.txt:1:one needle"]


async def test_binary_files_do_not_disturb_the_others(harness: ToolHarness):
    harness.write("a.bin", (b"needle" + b"x" * 2000 + b"\n") * 100 + b"\0\nneedle\n")
    harness.write("b.txt", "needle\n")
    result = await harness.ok("search_files", pattern="needle", path="b.txt")
    assert result.stdout == "b.txt:1:needle\n"
    pages = await harness.pages("search_files", pattern="needle")
    assert pages[-1].stdout.endswith("b.txt:1:needle\n")
    assert "a.bin is a binary file" in pages[-1].stderr
    result = await harness.ok("search_files", pattern="needle", path="a.bin")
    assert "a.bin is a binary file" in result.stderr


@pytest.mark.parametrize(
    "name", ["new\nline", "a:1:b", "a: binary file matches", "-e", "--", " ", "日本", "\t"]
)
async def test_any_name_can_be_searched(harness: ToolHarness, name):
    harness.write(name, "needle\n")
    harness.write("zz", "needle\n")
    shown = name if name.isprintable() else json.dumps(name)
    assert sorted(await found(harness, "needle")) == sorted([f"{shown}:1:needle", "zz:1:needle"])
    assert await found(harness, "needle", path=name) == [f"{shown}:1:needle"]


async def test_names_that_are_no_text_can_be_searched_page_by_page(harness: ToolHarness):
    for number in range(3):
        (harness.root / os.fsdecode(b"bad-\xff-%d" % number)).write_text("needle\n")
    pages = await harness.pages("search_files", pattern="needle", limit=1)
    assert [page.stdout for page in pages] == [f'"bad-\\udcff-{n}":1:needle\n' for n in range(3)]
