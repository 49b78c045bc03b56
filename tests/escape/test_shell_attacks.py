"""Attacks on the shell tools by what a command can leave, hold, hide or race, through the real runner."""

import asyncio
import base64
import itertools
import time
from pathlib import Path

import orjson
import pytest

from interlock.sandbox.jobs import JobLimits
from tests.escape.loop_watch import watched_loop
from tests.harness.sandbox import SOON_SECONDS
from tests.harness.store import StoreHarness
from tests.harness.tool_calls import SECRET, ToolHarness

EVIL = "#!/bin/sh\necho evil\n"


@pytest.fixture
async def shell(sqlite_store: StoreHarness, tmp_path):
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    bench.job_limits = JobLimits(processes=64, memory_bytes=256 * 2**20, file_bytes=16 * 2**20)
    await bench.open_sandbox()
    yield bench
    await bench.backend.close()


def repository(shell: ToolHarness) -> None:
    shell.write(".git/config", "[core]\n")
    shell.write(".git/hooks/pre-commit", "#!/bin/sh\n")


async def python(shell: ToolHarness, code: str, tool: str = "bash", **more):
    """A script that the judge of commands cannot look into."""
    shell.write("attack.py", code)
    return await shell.call(tool, cmd="python3 attack.py", **more)


def evil_files(root: Path) -> list[str]:
    """What git would read by the names it knows, links followed."""
    found = [root / ".git/config", root / ".git/commondir", *(root / ".git/hooks").glob("*")]
    return [str(path.relative_to(root)) for path in found if path.is_file() and "evil" in path.read_text()]


# -- the guard --


@pytest.mark.parametrize(
    "trick",
    [
        "os.rename('.git', 'g'); os.symlink('g', '.git')",
        "os.rename('.git', 'g'); open('.git', 'w').write('gitdir: g')",
        "os.rename('.git/hooks', 'h'); os.symlink('../h', '.git/hooks')",
        "os.rename('.git', 'g'); os.mkfifo('.git')",
    ],
)
async def test_a_repository_that_was_moved_and_replaced_brings_no_hooks(shell: ToolHarness, trick):
    repository(shell)
    code = f"import os\nopen('.git/hooks/post-commit','w').write({EVIL!r})\n{trick}\n"
    result = await python(shell, code)
    assert evil_files(shell.root) == []
    assert not (shell.root / ".git").is_symlink()
    assert (shell.root / ".git").is_dir()
    assert (shell.root / ".git/hooks/pre-commit").read_text() == "#!/bin/sh\n"
    assert not any("could not" in text for text in result.meta["restored"])


async def test_a_worktrees_file_is_put_back(shell: ToolHarness):
    shell.write(".git", "gitdir: /somewhere/.git/worktrees/here\n")
    result = await python(shell, "open('.git','w').write('gitdir: evil')")
    assert (shell.root / ".git").read_text() == "gitdir: /somewhere/.git/worktrees/here\n"
    assert result.meta["restored"] == [".git"]


async def test_a_git_file_that_was_not_there_is_removed(shell: ToolHarness):
    await python(shell, "open('.git','w').write('gitdir: evil')")
    assert not (shell.root / ".git").exists()


async def test_a_linked_repository_is_guarded_where_it_is(shell: ToolHarness):
    shell.write("real/config", "[core]\n")
    (shell.root / ".git").symlink_to("real")
    code = "import os\nopen('real/config','w').write('evil'); os.mkdir('evil'); os.mkdir('evil/hooks')\n"
    await python(shell, code + "os.unlink('.git'); os.symlink('evil', '.git')")
    assert (shell.root / ".git").readlink() == Path("real")
    assert (shell.root / "real/config").read_text() == "[core]\n"


async def test_a_repository_inside_is_guarded_though_the_command_ran_above_it(shell: ToolHarness):
    shell.write("lib/inner/.git/config", "[core]\n")
    result = await python(shell, "open('lib/inner/.git/config', 'a').write('fsmonitor = evil')")
    assert result.meta["restored"] == ["lib/inner/.git/config"]
    assert evil_files(shell.root / "lib/inner") == []


async def test_a_new_match_of_a_pattern_is_removed(shell: ToolHarness):
    shell.write(".git/modules/sub/HEAD", "ref\n")
    code = (
        "import os\nos.mkdir('.git/modules/sub/hooks')\nopen('.git/modules/sub/config','w').write('evil')\n"
    )
    await python(shell, code + f"open('.git/modules/sub/hooks/pre-commit','w').write({EVIL!r})")
    assert [path.name for path in (shell.root / ".git/modules/sub").iterdir()] == ["HEAD"]


async def test_the_guard_destroys_nothing_that_it_did_not_remember(shell: ToolHarness):
    repository(shell)
    large = b"x" * (3 * 2**20)
    shell.write(".vscode/large.bin", large)
    for number in range(700):
        shell.write(f".git/hooks/n{number:04}", f"hook {number}\n")
    code = "open('.vscode/new','w').write('evil'); open('.git/hooks/n0000','w').write('evil')"
    await python(shell, code + "; open('.git/hooks/n0699','w').write('evil')")
    assert (shell.root / ".vscode/large.bin").read_bytes() == large
    assert not (shell.root / ".vscode/new").exists()
    for number in range(700):
        assert (shell.root / f".git/hooks/n{number:04}").read_text() == f"hook {number}\n"


async def test_what_is_too_large_to_be_remembered_is_told_when_it_changes(shell: ToolHarness):
    shell.write(".vscode/large.bin", b"x" * (5 * 2**20))
    result = await python(
        shell, "f = open('.vscode/large.bin','r+'); f.seek(4500000); f.write('evil'); f.close()"
    )
    assert any(".vscode" in text and "could not" in text for text in result.meta["restored"])
    assert "the change was undone" not in result.stderr


@pytest.mark.full
async def test_a_tree_too_deep_for_recursion_is_removed_all_the_same(shell: ToolHarness):
    code = "import os\nfor top in ('.vscode', os.environ['TMPDIR'], '.git/modules'):\n"
    code += " os.makedirs(top, exist_ok=True); here = os.open(top, 0)\n os.fchdir(here)\n"
    code += " for _ in range(1500):\n  os.mkdir('d'); os.chdir('d')\n os.chdir(ROOT)\n"
    code += "print(os.environ['TMPDIR'])"
    result = await python(shell, code.replace("ROOT", repr(str(shell.root))), timeout_seconds=20)
    assert result.ok, result.failure
    assert not (shell.root / ".vscode").exists()
    assert not Path(result.stdout.strip()).parent.exists()
    assert (await shell.ok("bash", cmd="echo still here")).stdout == "still here\n"
    # Whoever clears up after the tests would recurse.
    assert (await shell.ok("bash", cmd="rm -rf .git/modules")).ok


async def test_two_commands_at_once_cannot_have_the_guard_keep_what_one_changed(shell: ToolHarness):
    """The second begins when the hook is there, and ends after the first."""
    repository(shell)
    shell.write(
        "evil.py", f"import time; open('.git/hooks/post-commit','w').write({EVIL!r}); time.sleep(1)"
    )
    first = asyncio.ensure_future(shell.call("bash", cmd="python3 evil.py"))
    while not (shell.root / ".git/hooks/post-commit").exists():
        await asyncio.sleep(0.01)
    second = asyncio.ensure_future(shell.call("bash", cmd="sleep 2"))
    await asyncio.gather(first, second)
    assert evil_files(shell.root) == []
    # And what the person changes between two commands stays.
    shell.write(".git/config", "[person]\n")
    await shell.ok("bash", cmd="true")
    assert (shell.root / ".git/config").read_text() == "[person]\n"


async def test_a_person_s_change_stays_after_commands_that_were_cancelled_at_any_moment(shell: ToolHarness):
    repository(shell)
    for step in range(12):
        calling = asyncio.ensure_future(shell.call("bash", cmd="sleep 5"))
        await asyncio.sleep(step * 0.006)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    shell.write(".git/config", "[person]\n")
    await shell.ok("bash", cmd="true")
    assert (shell.root / ".git/config").read_text() == "[person]\n"


# -- what is left, held and shown --


@pytest.mark.full
async def test_a_full_temporary_folder_does_not_stop_the_loop(shell: ToolHarness):
    code = "import os\nos.chdir(os.environ['TMPDIR'])\nfor n in range(30000): open(str(n),'w').close()"
    async with watched_loop() as holds:
        await python(shell, code, timeout_seconds=20)
    assert holds.longest_seconds < 0.3


async def test_cancelled_commands_leave_no_kept_output(shell: ToolHarness):
    for _ in range(5):
        calling = asyncio.ensure_future(shell.call("bash", cmd="sleep 5"))
        await asyncio.sleep(0.08)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    kept = shell.root.parent / "state" / "outputs"
    assert [path for path in kept.rglob("*") if path.is_file()] == []


async def test_progress_shows_no_piece_of_a_secret(shell: ToolHarness):
    line = "x" * (200 - len(SECRET) // 2)
    shell.write("line", f"{line}{SECRET} and more\n")
    shell.write("half", SECRET[: len(SECRET) // 2])
    shell.write("rest", SECRET[len(SECRET) // 2 :])
    command = "for n in 1 2 3; do sleep 0.5; cat line; done; sleep 1.1; cat half; sleep 1.1; cat rest; echo"
    await shell.ok("bash_readonly", cmd=command, timeout_seconds=20)
    shown = "\n".join(shell.progress)
    assert shown
    for length in range(8, len(SECRET)):
        assert SECRET[:length] not in shown
        assert SECRET[-length:] not in shown


@pytest.mark.parametrize("command", ["echo \ud800", "#" + "\U0001f600" * 99_999])
async def test_what_cannot_be_an_argument_is_refused_in_words(shell: ToolHarness, command):
    result = await shell.call("bash", cmd=command)
    assert result.failure is not None
    assert "unexpectedly" not in result.failure.message
    assert result.failure.error_class.value != "unknown"


_SHARED = "m = mmap.mmap(-1, 400 * 2**20)\nfor at in range(0, len(m), 4096): m[at] = 1\n"
_UNMAPPED = "files = [os.memfd_create('x') for _ in range(30)]\n"
_UNMAPPED += "for file in files: os.write(file, bytes(15 * 2**20))\n"


_NOT_COUNTED = pytest.mark.xfail(strict=True, reason="memory that nobody maps is not counted", run=False)


@pytest.mark.parametrize(
    "way", [_SHARED, pytest.param(_UNMAPPED, marks=_NOT_COUNTED)], ids=["shared", "unmapped"]
)
async def test_shared_memory_counts_as_memory(shell: ToolHarness, way):
    code = f"import mmap, os, time\n{way}time.sleep(10); print('had it')"
    result = await python(shell, code, timeout_seconds=20)
    assert "had it" not in result.stdout


async def test_a_forged_cursor_shows_no_piece_of_a_secret_and_no_other_file(shell: ToolHarness):
    shell.write("long", ("y" * 100 + SECRET) * 1000)
    first = await shell.ok("bash_readonly", cmd="cat long")
    cursor = str(first.next_page_cursor)
    subject, name, _ = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    names = (name, f"../{name}", "*", "a" * 3000, "\u0661")
    for start, other in itertools.product((100, 101, 110, 2**17 - 5, 2**18, 2**53, -1), names):
        forged = orjson.dumps([subject, other, {"out": start, "err": 0}])
        result = await shell.call(
            "bash_readonly", cmd="cat long", cursor=base64.urlsafe_b64encode(forged).decode().rstrip("=")
        )
        assert result.failure is None or result.failure.error_class.value == "validation"
        assert not any(SECRET[-length:] in result.stdout for length in range(6, len(SECRET)))


@pytest.mark.parametrize(
    "command",
    [
        "exec >&- 2>&-; sleep 60",
        "yes >&2",
        "(setsid sleep 60 &) ; sleep 60",
        "kill -STOP $$",
        'python3 -c \'while True: __import__("os").chmod("file", 0o600)\'',
        "while true; do (setsid true &); done",
    ],
)
async def test_no_command_holds_its_caller_or_the_loop(shell: ToolHarness, command):
    shell.write("file", "x")
    began = time.monotonic()
    async with watched_loop() as holds:
        result = await shell.call("bash", cmd=command, timeout_seconds=1)
    assert time.monotonic() - began < SOON_SECONDS
    assert result.failure is not None
    assert holds.longest_seconds < 1
    assert (await shell.ok("bash", cmd="echo alive")).stdout == "alive\n"


async def test_fifty_commands_at_once_keep_their_outputs_apart(shell: ToolHarness):
    calls = [shell.call("bash_readonly", cmd=f"seq {n} {n + 3000}", timeout_seconds=60) for n in range(50)]
    for number, result in enumerate(await asyncio.gather(*calls)):
        assert result.stdout.splitlines()[:2] == [str(number), str(number + 1)]


async def test_every_cancelled_call_has_one_outcome_and_does_nothing_later(shell: ToolHarness):
    for number in range(20):
        calling = asyncio.ensure_future(shell.call("bash", cmd="sleep 1; echo late >> late"))
        await asyncio.sleep(number * 0.004)
        calling.cancel()
        if number % 3 == 0:
            await asyncio.sleep(0)
            calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    await asyncio.sleep(1.2)
    assert not (shell.root / "late").exists()
    kinds = [kind for kind, _ in shell.events()]
    assert kinds.count("tool_call.started") == kinds.count("tool_call.failed")


async def test_what_was_restored_takes_no_line_from_the_output(shell: ToolHarness):
    code = "import sys\nopen('.bashrc','w').write('x')\nfor n in range(5000): print(n, file=sys.stderr)"
    pages = [await python(shell, code)]
    while cursor := pages[-1].next_page_cursor:
        pages.append(await shell.ok("bash", cmd="python3 attack.py", cursor=cursor))
    note, *numbers = "".join(page.stderr for page in pages).splitlines()
    assert ".bashrc" in note
    assert numbers == [str(number) for number in range(5000)]


async def test_nothing_at_a_protected_name_leads_the_guard_out_or_stops_it(shell: ToolHarness):
    repository(shell)
    (shell.outside / "victim").mkdir()
    (shell.outside / "victim" / "file").write_text("as it was")
    out = str(shell.outside / "victim")
    lines = [
        "import os",
        "os.unlink('.git/hooks/pre-commit'); os.mkdir('.git/hooks/pre-commit')",
        f"os.symlink({out!r}, '.git/hooks/pre-commit/link'); os.symlink({out!r}, '.vscode')",
        f"os.symlink({out + '/file'!r}, '.bashrc'); os.mkfifo('.mcp.json'); os.mkdir('.zshrc', 0)",
        "os.unlink('.git/config'); os.mkdir('.git/config'); os.makedirs('.config/fish/a')",
        "for n in range(500): f = open(f'.git/config/{n}', 'w'); f.truncate(15 * 2**20); f.close()",
        "os.chmod('.config/fish/a', 0); open(b'.git/hooks/\\xff', 'w'); open('.git/hooks/a\\nb', 'w')",
    ]
    before = shell.outside_state()
    result = await python(shell, "\n".join(lines))
    assert result.ok, result
    assert shell.outside_state() == before
    assert [path.name for path in (shell.root / ".git/hooks").iterdir()] == ["pre-commit"]
    assert (shell.root / ".git/hooks/pre-commit").read_text() == "#!/bin/sh\n"
    assert (shell.root / ".git/config").read_text() == "[core]\n"
    left = {".vscode", ".bashrc", ".mcp.json", ".zshrc"} & {path.name for path in shell.root.iterdir()}
    assert left == set()
    assert not (shell.root / ".config/fish").exists()
