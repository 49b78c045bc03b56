"""`search_files` on real files with the real rg (S3-11.grep, S3-12.4, S3-12.13)."""

import asyncio
import codecs
import json
import os
import threading
from pathlib import Path

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.gates.authority import CallLimits
from interlock.gates.gate import ToolCall
from interlock.gates.runner import CallContext, ToolRunner
from interlock.redaction.redactor import MARK, Redactor
from interlock.sandbox.programs import RG, locate
from interlock.tools.builtins import FileServices
from interlock.tools.builtins.search_files import SearchFilesTool
from interlock.wiring import build_registry
from tests.integration.workbench import SECRET, Workbench


def test_search_files_group_and_modes():
    tool = SearchFilesTool(Redactor(), None, None)
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.chat, ToolMode.plan, ToolMode.coding}
    assert tool.aliases == ("grep", "fs.search")
    assert "program:rg" in tool.needs


async def found(workbench: Workbench, pattern: str, **arguments) -> list[str]:
    return (await workbench.ok("search_files", pattern=pattern, **arguments)).stdout.splitlines()


# -- hits --


async def test_each_match_is_file_line_and_text_in_the_order_of_paths(workbench: Workbench):
    workbench.write("b/z.txt", "x\nneedle one\n")
    workbench.write("b.txt", "needle two\n\nneedle three")
    workbench.write("B.txt", "needle four\n")
    workbench.write(".hidden", "a needle\n")
    result = await workbench.ok("search_files", pattern="needle")
    assert result.stdout == (
        ".hidden:1:a needle\nB.txt:1:needle four\n"
        "b/z.txt:2:needle one\nb.txt:1:needle two\nb.txt:3:needle three\n"
    )
    assert result.meta == {"path": ".", "matches": 5}
    assert result.stderr == ""
    assert result.next_page_cursor is None


async def test_no_match_is_a_success(workbench: Workbench):
    workbench.write("a.txt", "hay\n")
    result = await workbench.ok("search_files", pattern="needle")
    assert (result.exit_code, result.stdout, result.meta["matches"]) == (0, "", 0)


async def test_a_single_file_can_be_searched(workbench: Workbench):
    workbench.write("src/a.txt", "one\ntwo\n")
    workbench.write("src/b.txt", "two\n")
    assert await found(workbench, "two", path="src/a.txt") == ["src/a.txt:2:two"]
    assert await found(workbench, "two", path="src") == ["src/a.txt:2:two", "src/b.txt:1:two"]
    assert await found(workbench, "two", path=str(workbench.root / "src/b.txt")) == ["src/b.txt:1:two"]


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
async def test_patterns_are_regular_expressions(workbench: Workbench, pattern, hits):
    workbench.write("a.txt", "Foo\nfoo\na.b\naxb\ncafé !\nxx !\n-v !\n\n")
    assert [line.split(":")[1] for line in await found(workbench, pattern)] == hits


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
async def test_a_glob_chooses_files_as_in_find_files(workbench: Workbench, glob, files):
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
        workbench.write(path, "needle\n")
    workbench.write(".gitignore", "ignored/\n")
    (workbench.root / ".git").mkdir()
    assert [line.removesuffix(":1:needle") for line in await found(workbench, "needle", glob=glob)] == files


# -- what is searched --


async def test_files_that_only_rg_knows_hide_nothing(workbench: Workbench):
    workbench.write("a.txt", "needle\n")
    for folder in (workbench.root, workbench.root.parent):
        for name in (".ignore", ".rgignore"):
            (folder / name).write_text("a.txt\n")
    assert await found(workbench, "needle") == ["a.txt:1:needle"]


async def test_what_git_ignores_is_searched_only_by_name(workbench: Workbench):
    (workbench.root / ".git").mkdir()
    workbench.write(".git/config", "needle\n")
    workbench.write(".gitignore", "build/\n*.log\n")
    for path in ("build/out.txt", "app.log", "app.txt"):
        workbench.write(path, "needle\n")
    assert await found(workbench, "needle") == ["app.txt:1:needle"]
    assert await found(workbench, "needle", glob="*") == ["app.txt:1:needle"]
    assert await found(workbench, "needle", path="build") == ["build/out.txt:1:needle"]
    assert await found(workbench, "needle", path="app.log") == ["app.log:1:needle"]


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF8, b""])
async def test_lines_are_right_in_any_encoding(workbench: Workbench, mark):
    encoding = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(mark, "utf-8")
    text = "needle at once\n" + "füller 😀\n" * 3000 + "ein 日本 needle\r\nend needle"
    workbench.write("a.txt", mark + text.encode(encoding))
    assert await found(workbench, "needle") == [
        "a.txt:1:needle at once",
        "a.txt:3002:ein 日本 needle",
        "a.txt:3003:end needle",
    ]


async def test_a_latin_1_line_is_shown_as_read_file_shows_it(workbench: Workbench):
    workbench.write("a.txt", "grün needle\n".encode("latin-1"))
    assert await found(workbench, "needle") == ["a.txt:1:grün needle"]


async def test_windows_line_ends_are_line_ends(workbench: Workbench):
    workbench.write("a.txt", "one needle\r\ntwo\r\n")
    assert await found(workbench, "needle$") == ["a.txt:1:one needle"]


async def test_binary_files_do_not_disturb_the_others(workbench: Workbench):
    workbench.write("a.bin", (b"needle" + b"x" * 2000 + b"\n") * 100 + b"\0\nneedle\n")
    workbench.write("b.txt", "needle\n")
    result = await workbench.ok("search_files", pattern="needle", path="b.txt")
    assert result.stdout == "b.txt:1:needle\n"
    pages = await workbench.pages("search_files", pattern="needle")
    assert pages[-1].stdout.endswith("b.txt:1:needle\n")
    assert "a.bin is a binary file" in pages[-1].stderr
    result = await workbench.ok("search_files", pattern="needle", path="a.bin")
    assert "a.bin is a binary file" in result.stderr


@pytest.mark.parametrize(
    "name", ["new\nline", "a:1:b", "a: binary file matches", "-e", "--", " ", "日本", "\t"]
)
async def test_any_name_can_be_searched(workbench: Workbench, name):
    workbench.write(name, "needle\n")
    workbench.write("zz", "needle\n")
    shown = name if name.isprintable() else json.dumps(name)
    assert sorted(await found(workbench, "needle")) == sorted([f"{shown}:1:needle", "zz:1:needle"])
    assert await found(workbench, "needle", path=name) == [f"{shown}:1:needle"]


async def test_names_that_are_no_text_can_be_searched_page_by_page(workbench: Workbench):
    for number in range(3):
        (workbench.root / os.fsdecode(b"bad-\xff-%d" % number)).write_text("needle\n")
    pages = await workbench.pages("search_files", pattern="needle", limit=1)
    assert [page.stdout for page in pages] == [f'"bad-\\udcff-{n}":1:needle\n' for n in range(3)]


# -- long lines --


@pytest.mark.parametrize("at", [0, 100, 400, 5000, 99_000, 99_994])
async def test_a_long_line_is_shown_around_the_match(workbench: Workbench, at):
    line = "ü" * at + "needle" + "ü" * (99_994 - at)
    workbench.write("a.txt", f"first\n{line}\nlast\n")
    (shown,) = await found(workbench, "needle")
    assert shown.startswith("a.txt:2:")
    assert "needle" in shown
    assert 200 < len(shown) < 600
    assert "\ufffd" not in shown
    assert shown.endswith("…") == (at < 99_994)
    assert shown.startswith("a.txt:2:…") == (at > 200)


async def test_a_long_utf_16_line_is_shown_around_the_match(workbench: Workbench):
    line = "é😀" * 20_000 + "needle" + "é" * 20_000
    workbench.write("a.txt", codecs.BOM_UTF16_LE + f"x\n{line}\n".encode("utf-16-le"))
    (shown,) = await found(workbench, "needle")
    assert "é😀needleé" in shown
    assert len(shown) < 600


async def test_no_cut_of_a_long_line_shows_a_part_of_a_secret(workbench: Workbench):
    lines = [
        f"{'a' * before}{SECRET}{'b' * 200}needle{'c' * 330}{SECRET}{'d' * 900}" for before in range(90)
    ]
    lines += [f"needle{'x' * behind}{SECRET}{'y' * 900}" for behind in range(460, 510)]
    workbench.write("a.txt", "\n".join(lines))
    pages = await workbench.pages("search_files", pattern="needle")
    shown = "".join(page.stdout for page in pages).splitlines()
    assert len(shown) == 140
    for line in shown:
        assert not any(SECRET[at : at + 6] in line for at in range(len(SECRET) - 5))
        assert line.count("***") == 2 * line.count(MARK)


async def test_a_secret_over_several_lines_is_never_shown_line_by_line(workbench: Workbench):
    key = "-----BEGIN KEY-----\nabcdefgh\nijklmnop\n-----END KEY-----"
    workbench.write("key.pem", f"# key\n{key}\n# end\n")
    redactor = Redactor([key])
    registry = build_registry(None, FileServices(redactor, None, locate(RG)))  # type: ignore[arg-type]
    runner = ToolRunner(registry, workbench.store.log, redactor)
    call = ToolCall("c", "search_files", {"pattern": "."})
    result = await runner.call(call, workbench.authority(), CallContext(workbench.session_id))
    assert result.stdout == "".join(
        [
            "key.pem:1:# key\n",
            *(f"key.pem:{number}:{MARK}\n" for number in range(2, 6)),
            "key.pem:6:# end\n",
        ]
    )


# -- pages --


async def many(workbench: Workbench, files: int = 40, lines: int = 30) -> str:
    for number in range(files):
        workbench.write(f"d{number % 7}/f{number}.txt", f"needle {number}\nhay\n" * lines)
    workbench.limits = CallLimits(max_output_lines=100_000, max_output_bytes=10_000_000)
    whole = await workbench.ok("search_files", pattern="needle", limit=100_000)
    workbench.limits = CallLimits()
    assert whole.stdout.count("\n") == files * lines
    return whole.stdout


@pytest.mark.parametrize("limit", [100, 499, 2000, None])
async def test_pages_joined_are_everything_in_one_order(workbench: Workbench, limit):
    whole = await many(workbench)
    arguments = {} if limit is None else {"limit": limit}
    pages = await workbench.pages("search_files", pattern="needle", **arguments)
    assert "".join(page.stdout for page in pages) == whole
    assert len(pages) == -(-1200 // (limit or 500))
    assert all(page.truncated_lines for page in pages[:-1])
    assert not pages[-1].truncated_lines


async def test_large_output_is_cut_by_bytes_and_goes_on(workbench: Workbench):
    whole = await many(workbench)
    workbench.limits = CallLimits(max_output_bytes=2000)
    pages = await workbench.pages("search_files", pattern="needle")
    assert "".join(page.stdout for page in pages) == whole
    assert all(len(page.stdout.encode()) <= 2000 for page in pages)
    assert all(page.truncated_bytes for page in pages[:-1])


async def test_a_cursor_is_stale_once_what_was_shown_changed(workbench: Workbench):
    await many(workbench, 5, 5)
    first = await workbench.ok("search_files", pattern="needle", limit=7)
    workbench.write("d0/f0.txt", "hay\n" + "needle 0\nhay\n" * 5)
    code = await workbench.refused("search_files", pattern="needle", cursor=first.next_page_cursor)
    assert code == "STALE_CURSOR"
    for path in workbench.root.rglob("*.txt"):
        path.unlink()
    code = await workbench.refused("search_files", pattern="needle", cursor=first.next_page_cursor)
    assert code == "STALE_CURSOR"


async def test_a_cursor_belongs_to_its_search(workbench: Workbench):
    await many(workbench, 5, 5)
    cursor = (await workbench.ok("search_files", pattern="needle", limit=7)).next_page_cursor
    for other in (
        {"pattern": "hay"},
        {"pattern": "needle", "glob": "*"},
        {"pattern": "needle", "path": "d1"},
    ):
        assert await workbench.refused("search_files", cursor=cursor, **other) == "INVALID_ARGS"
    assert await workbench.refused("search_files", pattern="needle", cursor="x") == "INVALID_ARGS"


# -- attacks --


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "--pre=sh",
            "--pre",
            "-f/etc/passwd",
            "--file=/etc/passwd",
            "--files",
            "--hostname-bin=sh",
            "-e",
            "--",
        ),
        *(
            "--search-zip",
            "-uuu",
            "--follow",
            "-L",
            "--no-ignore",
            "--help",
            "--version",
            "-V",
            "--type-list",
        ),
        *(
            "--generate=man",
            "--debug",
            "--json",
            "--passthru",
            "-r$0",
            "--pcre2-version",
            "!x",
            "@/etc/passwd",
        ),
    ],
)
async def test_a_pattern_is_never_an_option(workbench: Workbench, pattern):
    """Earlier systems executed files when they were asked to search for `--pre=sh`."""
    workbench.write("run.sh", "#!/bin/sh\ntouch PWNED\n")
    workbench.write("text.txt", f"before\n{pattern}\n")
    for arguments in ({}, {"path": "text.txt"}, {"glob": "*.txt"}):
        lines = await found(workbench, pattern, **arguments)
        assert lines == [f"text.txt:2:{pattern}"] or pattern.startswith("-r$")
    for glob in (pattern, f"*{pattern}"):
        result = await workbench.call("search_files", pattern="before", glob=glob)
        assert result.stdout == "" or result.failure is not None
    assert not list(workbench.root.parent.rglob("PWNED"))


@pytest.mark.parametrize("name", ["--pre=sh", "-f", "--files", "@list", "--", "-"])
async def test_a_name_is_never_an_option(workbench: Workbench, name):
    workbench.write(name, "touch PWNED needle\n")
    workbench.write("other", "needle\n")
    assert await found(workbench, "needle", path=name) == [f"{name}:1:touch PWNED needle"]
    assert not list(workbench.root.parent.rglob("PWNED"))


async def test_configuration_of_rg_is_not_read(workbench: Workbench, monkeypatch):
    hook = workbench.outside / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {workbench.outside}/PWNED\ncat $1\n")
    hook.chmod(0o755)
    config = workbench.outside / "ripgreprc"
    config.write_text(f"--pre={hook}\n--follow\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    monkeypatch.setenv("HOME", str(workbench.outside))
    workbench.write("a.txt", "needle\n")
    assert await found(workbench, "needle") == ["a.txt:1:needle"]
    assert not (workbench.outside / "PWNED").exists()


async def test_links_are_not_followed(workbench: Workbench):
    (workbench.outside / "private.txt").write_text("needle CANARY\n")
    (workbench.root / "folder").symlink_to(workbench.outside)
    (workbench.root / "file").symlink_to(workbench.outside / "private.txt")
    workbench.write("a.txt", "needle\n")
    (workbench.root / "inner").symlink_to("a.txt")
    assert await found(workbench, "needle") == ["a.txt:1:needle"]
    assert await found(workbench, "needle", path="inner") == ["a.txt:1:needle"]
    for path in ("folder", "file", "folder/private.txt", "../outside"):
        assert await workbench.refused("search_files", pattern="needle", path=path) == "PATH_DENIED"
    for glob in ("folder/*", "../outside/*", "/etc/*"):
        assert await workbench.refused("search_files", pattern="x", glob=glob) == "PATH_DENIED"


async def test_a_file_that_also_has_a_name_outside_is_not_shown(workbench: Workbench):
    (workbench.outside / "private.txt").write_text("needle CANARY\n")
    os.link(workbench.outside / "private.txt", workbench.root / "linked.txt")
    workbench.write("a.txt", "needle\n")
    assert await found(workbench, "needle") == ["a.txt:1:needle"]


async def test_a_folder_swapped_for_a_link_during_the_search_shows_nothing_from_outside(
    workbench: Workbench,
):
    for number in range(300):
        (workbench.outside / f"f{number}.txt").write_text("needle CANARY\n" * 20)
        workbench.write(f"d/f{number}.txt", "needle inside\n" * 20)
    inside, aside = workbench.root / "d", workbench.root / "aside"
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            inside.rename(aside)
            inside.symlink_to(workbench.outside)
            inside.unlink()
            aside.rename(inside)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(12):
            for arguments in ({}, {"path": "d"}, {"path": "d/f1.txt"}):
                result = await workbench.call("search_files", pattern="needle", **arguments)
                assert "CANARY" not in str(result)
    finally:
        done.set()
        thread.join()


# -- failures --


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a", "pattern: unclosed group"),
        ("[z-a]", "pattern: invalid character class range"),
        ("a{1000}{1000}{1000}", "size limit"),
        ("a\nb", 'pattern: the literal "\\n" is not allowed'),
        (r"a\nb", "is not allowed"),
        ("(?=a)", "look-around"),
        ("a\0b", "null character"),
    ],
)
async def test_a_pattern_that_is_none_is_refused_with_the_reason(workbench: Workbench, pattern, said):
    workbench.write("a.txt", "x\n")
    result = await workbench.call("search_files", pattern=pattern)
    assert result.failure is not None
    assert result.failure.error_code == "INVALID_ARGS"
    assert said in result.failure.message
    assert "--" not in result.failure.message


BAD_ARGUMENTS = [
    ({}, "pattern"),
    ({"pattern": ""}, "pattern"),
    ({"pattern": 5}, "pattern"),
    ({"pattern": "x", "limit": "5"}, "limit"),
    ({"pattern": "x", "limit": 0}, "limit"),
    ({"pattern": "x", "glob": ""}, "glob"),
    ({"pattern": "x", "glob": "a\0"}, "glob"),
    ({"pattern": "x", "case_sensitive": False}, "case_sensitive"),
]


async def test_bad_arguments_are_refused_by_name(workbench: Workbench):
    for arguments, place in BAD_ARGUMENTS:
        result = await workbench.call("search_files", arguments)
        assert result.failure is not None
        assert result.failure.error_code == "INVALID_ARGS"
        assert place in result.failure.message


async def test_what_is_missing_or_has_no_lines_is_refused(workbench: Workbench):
    os.mkfifo(workbench.root / "pipe")
    workbench.write("main.py")
    for path, said in (("pipe", "not a regular file"), ("mian.py", "did you mean main.py?")):
        result = await workbench.call("search_files", pattern="x", path=path, timeout=5)
        assert result.failure is not None
        assert said in result.failure.message


async def test_a_pipe_in_a_folder_is_not_waited_for(workbench: Workbench):
    os.mkfifo(workbench.root / "pipe")
    workbench.write("a.txt", "needle\n")
    assert await found(workbench, "needle", timeout=20) == ["a.txt:1:needle"]


def test_files_without_permission_are_said_to_be_missing(workbench: Workbench, as_ordinary_account):
    workbench.write("a.txt", "needle\n")
    workbench.write("closed.txt", "needle\n").chmod(0)
    result = as_ordinary_account("search_files", pattern="needle")
    assert result["stdout"] == "a.txt:1:needle\n"
    assert "could not be read" in result["stderr"]


async def test_without_rg_it_is_said_what_to_install(workbench: Workbench, monkeypatch):
    monkeypatch.setattr("interlock.wiring.locate", lambda _program: None)
    result = await workbench.call("search_files", pattern="x")
    assert result.failure is not None
    assert result.failure.error_code == "TOOL_NOT_AVAILABLE"
    assert "rg" in result.failure.message
    assert "ripgrep" in result.failure.message + result.failure.next_action


@pytest.mark.parametrize("program", [None, Path("/nonexistent/rg")])
async def test_an_rg_that_is_gone_by_now_is_told_as_well(workbench: Workbench, program):
    services = FileServices(Redactor(), None, program)  # type: ignore[arg-type]
    runner = ToolRunner(build_registry(None, services), workbench.store.log, Redactor())
    call = ToolCall("c", "search_files", {"pattern": "x"})
    result = await runner.call(call, workbench.authority(), CallContext(workbench.session_id))
    assert result.failure is not None
    assert result.failure.error_code == "TOOL_NOT_AVAILABLE"
    assert "ripgrep" in result.failure.next_action


# -- processes --


def children() -> list[int]:
    """The processes that this one has started and that are not gone."""
    own = Path("/proc/self/task")
    return [
        int(pid)
        for task in own.iterdir()
        for pid in (task / "children").read_text().split()
        if Path(f"/proc/{pid}/comm").read_text().strip() in {"rg", "slow-rg"}
    ]


def slow_bench(workbench: Workbench, folder: Path) -> tuple[ToolRunner, Path]:
    """A program in the place of rg that starts another, says which they are, and hangs at a pipe."""
    program, said, ready = folder / "slow-rg", folder / "pids", folder / "ready"
    os.mkfifo(ready)
    program.write_text(f'#!/bin/sh\nsleep 600 &\necho "$$ $!" > {said}\necho ready > {ready}\nwait\n')
    program.chmod(0o755)
    services = FileServices(Redactor(), None, program)  # type: ignore[arg-type]
    return ToolRunner(build_registry(None, services), workbench.store.log, Redactor()), said


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_time_out_leaves_no_process_behind(workbench: Workbench, tmp_path, open_descriptors):
    """The whole group dies, also what the program itself had started."""
    runner, said = slow_bench(workbench, tmp_path)
    before = open_descriptors()
    call = ToolCall("c", "search_files", {"pattern": "x"}, 1.0)
    result = await runner.call(call, workbench.authority(), CallContext(workbench.session_id))
    assert result.failure is not None
    assert result.failure.error_code == "TIMEOUT"
    assert not any(is_alive(int(pid)) for pid in said.read_text().split())
    await asyncio.sleep(0)
    assert open_descriptors() == before


async def test_a_cancelled_search_leaves_no_process_behind(
    workbench: Workbench, tmp_path, open_descriptors
):
    runner, said = slow_bench(workbench, tmp_path)
    before = open_descriptors()
    call = ToolCall("c", "search_files", {"pattern": "x"})
    running = asyncio.ensure_future(
        runner.call(call, workbench.authority(), CallContext(workbench.session_id))
    )
    await asyncio.to_thread((tmp_path / "ready").read_text)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not any(is_alive(int(pid)) for pid in said.read_text().split())
    await asyncio.sleep(0)
    assert open_descriptors() == before


async def test_searching_leaves_neither_descriptors_nor_processes(workbench: Workbench, open_descriptors):
    """Also where rg still had much to say when a page was full."""
    workbench.write("a.txt", "needle\n" * 300_000)
    await workbench.ok("search_files", pattern="needle", limit=1)
    before = open_descriptors()
    for _ in range(3):
        await workbench.ok("search_files", pattern="needle", limit=1)
        await workbench.ok("search_files", pattern="nothing")
        await workbench.refused("search_files", pattern="(")
        await workbench.refused("search_files", pattern="x", path="missing")
    await asyncio.sleep(0)
    assert open_descriptors() == before
    assert children() == []
