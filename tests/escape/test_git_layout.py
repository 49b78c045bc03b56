"""Directories that a call makes a git repository, so that the person's next git runs what they say."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tests.harness.store import StoreHarness
from tests.harness.tool_calls import ToolHarness

# Makes the working directory a repository without a `.git`. `steps` come before that.
ATTACK = """
import os, shutil
def lay_out(top):
    for name in ("objects", "refs/heads"):
        os.makedirs(os.path.join(top, name), exist_ok=True)
    open(os.path.join(top, "HEAD"), "w").write("ref: refs/heads/main\\n")
    open(os.path.join(top, "config"), "w").write(
        "[core]\\n bare = false\\n worktree = %s\\n fsmonitor = \\"touch %s; false\\"\\n"
        % (os.path.abspath(top), os.path.abspath("ran")))
{steps}
"""

STEPS = {
    "HEAD deleted": "os.unlink('.git/HEAD'); lay_out('.')",
    "HEAD overwritten": "open('.git/HEAD', 'w').write('nothing'); lay_out('.')",
    "HEAD a directory": "os.unlink('.git/HEAD'); os.mkdir('.git/HEAD'); lay_out('.')",
    "HEAD a link": "os.unlink('.git/HEAD'); os.symlink('/etc/passwd', '.git/HEAD'); lay_out('.')",
    "refs moved": "shutil.move('.git/refs', 'refs'); lay_out('.')",
    "objects moved": "shutil.move('.git/objects', 'objects'); lay_out('.')",
    "through commondir": (
        "os.unlink('.git/HEAD'); os.mkdir('c'); lay_out('c'); shutil.move('c/HEAD', 'HEAD');"
        "open('commondir', 'w').write('c')"
    ),
    "no .git": "shutil.rmtree('.git', ignore_errors=True); lay_out('.')",
    "in a repository inside": "os.unlink('lib/inner/.git/HEAD'); lay_out('lib/inner')",
}


@pytest.fixture(params=["landlock", "bubblewrap"])
async def shell(request, sqlite_store: StoreHarness, tmp_path):
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    await bench.open_sandbox(request.param)
    for directory in (bench.root, bench.root / "lib/inner"):
        directory.mkdir(parents=True, exist_ok=True)
        git(directory, "init", "-b", "main")
        git(directory, "commit", "--allow-empty", "-m", "first")
    yield bench
    await bench.backend.close()


def git(directory: Path, *words: str, check: bool = True) -> str:
    """As the person runs it."""
    who = [
        word
        for name in ("AUTHOR", "COMMITTER")
        for word in ((f"GIT_{name}_NAME", "Ada"), (f"GIT_{name}_EMAIL", "a@b"))
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory.parent), **dict(who)}
    command = ["git", "-c", "safe.directory=*", *words]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=30
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
async def test_a_command_cannot_leave_a_repository_whose_config_the_next_git_runs(
    shell: ToolHarness, steps
):
    shell.write("attack.py", ATTACK.format(steps=steps))
    result = await shell.call("bash", cmd="python3 attack.py")
    for directory in (shell.root, shell.root / "lib/inner"):
        git(directory, "status", check=False)
    assert not (shell.root / "ran").exists()
    assert result.meta["restored"], result
    assert not any("could not" in path for path in result.meta["restored"])
    assert "tool_call.restored" in [kind for kind, _ in shell.events()]


async def test_git_itself_may_change_its_head_in_a_command(shell: ToolHarness):
    identity = "-c user.name=A -c user.email=a@b -c safe.directory='*'"
    steps = (
        "switch -c topic",
        "commit --allow-empty -m second",
        "checkout --detach",
        "checkout -b other HEAD~1",
    )
    for step in steps:
        result = await shell.ok("bash", cmd=f"git {identity} {step}")
        assert "restored" not in result.meta
    assert git(shell.root, "symbolic-ref", "HEAD") == "refs/heads/other"
    assert git(shell.root, "log", "-1", "--format=%s", "topic") == "second"


async def test_a_bare_repository_in_a_new_directory_stays(shell: ToolHarness):
    result = await shell.ok("bash", cmd="git init --bare fresh.git")
    assert "restored" not in result.meta
    assert git(shell.root / "fresh.git", "rev-parse", "--is-bare-repository") == "true"


async def test_in_a_bare_repository_that_is_opened_a_command_changes_no_config(shell: ToolHarness):
    bare = shell.root / "opened.git"
    git(shell.root, "init", "--bare", "opened.git")
    before = (bare / "config").read_text()
    shell.write(
        "opened.git/attack.py",
        "open('config', 'a').write('evil'); open('hooks/post-update', 'w').write('x')",
    )
    shell.roots = (bare,)
    result = await shell.ok("bash", cmd="python3 attack.py")
    assert sorted(result.meta["restored"]) == ["config", "hooks"]
    assert (bare / "config").read_text() == before
    assert not (bare / "hooks/post-update").exists()


async def test_file_tools_make_no_directory_a_repository_and_keep_its_head(
    sqlite_store: StoreHarness, tmp_path
):
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    git(bench.root, "init", "-b", "main")
    assert await bench.refused("delete_file", path=".git/HEAD") == "PATH_DENIED"
    assert await bench.refused("move_file", source=".git/HEAD", destination="HEAD") == "PATH_DENIED"
    assert await bench.refused("write_file", path=".git/HEAD", content="x") == "PATH_DENIED"
    head, config = "ref: refs/heads/main\n", '[core]\nfsmonitor = "touch ran; false"\nworktree = ..\n'
    for path, content in (
        ("sub/config", config),
        ("sub/objects/x", ""),
        ("sub/other/x", ""),
        ("sub/name", head),
    ):
        await bench.ok("write_file", path=path, content=content)
    await bench.ok("move_file", source="sub/name", destination="sub/HEAD")
    assert await bench.refused("move_file", source="sub/other", destination="sub/refs") == "PATH_DENIED"
    assert await bench.refused("write_file", path="sub/refs/heads/main", content="") == "PATH_DENIED"
    assert await bench.refused("write_file", path="sub/commondir", content="../.git") == "PATH_DENIED"
    git(bench.root / "sub", "status", check=False)
    assert not list(bench.root.rglob("ran"))


@pytest.fixture
async def two(sqlite_store: StoreHarness, tmp_path) -> list[ToolHarness]:
    """Two sessions, each with what a process of its own has: they share the state folder."""
    sessions = [await sqlite_store.sessions.create(opened_by="test") for _ in range(2)]
    return [ToolHarness(sqlite_store, session.id, tmp_path) for session in sessions]


def parts_of(directory: Path) -> list[str]:
    return sorted({"HEAD", "objects", "refs"}.intersection(path.name for path in directory.iterdir()))


@pytest.mark.parametrize("way", ["written", "moved"])
async def test_two_sessions_make_no_repository_together(two: list[ToolHarness], way):
    first, second = two
    for number in range(30):
        top = f"x{number}"
        first.write(f"{top}/objects/a", "")
        first.write(f"{top}/name", "ref: refs/heads/main\n")
        arguments = {"source": f"{top}/name", "destination": f"{top}/HEAD"}
        if way == "written":
            arguments = {"path": f"{top}/HEAD", "content": "ref: refs/heads/main\n"}
        ended = await asyncio.gather(
            first.call("write_file" if way == "written" else "move_file", **arguments),
            second.call("write_file", path=f"{top}/refs/a", content=""),
        )
        codes = [result.failure.error_code.value for result in ended if result.failure is not None]
        assert codes == ["PATH_DENIED"], (number, ended)
        # Nothing of the one that was refused is left, either.
        assert len(parts_of(first.root / top)) == 2, number


async def undone(bench: ToolHarness, call: int) -> list[str | None]:
    report = await bench.undo.revert(f"call_{call}", who="test")
    return [outcome.reason for outcome in report.outcomes]


async def test_an_undo_makes_no_directory_a_repository(sqlite_store: StoreHarness, tmp_path):
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    for top in ("deleted", "moved", "folder"):
        bench.write(f"{top}/objects/a", "")
    for top in ("deleted", "moved"):
        bench.write(f"{top}/HEAD", "ref: refs/heads/main\n")
    bench.write("folder/refs/a", "")
    await bench.ok("delete_file", path="deleted/HEAD")
    await bench.ok("move_file", source="moved/HEAD", destination="moved/name")
    await bench.ok("delete_file", path="folder/refs/a")
    await bench.ok("delete_file", path="folder/refs", recursive=True)
    for top in ("deleted", "moved"):
        await bench.ok("write_file", path=f"{top}/refs/a", content="")
    await bench.ok("write_file", path="folder/HEAD", content="ref: refs/heads/main\n")
    for call, top in ((1, "deleted"), (2, "moved"), (3, "folder")):
        before = parts_of(bench.root / top)
        (reason,) = await undone(bench, call)
        assert reason is not None, top
        assert "a git repository" in reason
        assert parts_of(bench.root / top) == before
    # Once the other part is gone it can be taken back.
    await bench.ok("delete_file", path="deleted/refs", recursive=True)
    assert await undone(bench, 1) == [None]
    assert parts_of(bench.root / "deleted") == ["HEAD", "objects"]


async def test_an_undo_gives_a_repository_no_earlier_config(sqlite_store: StoreHarness, tmp_path):
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    await bench.ok("write_file", path="fresh.git/config", content="[core]\nfsmonitor = evil\n")
    await bench.ok("write_file", path="fresh.git/config", content="")
    git(bench.root, "init", "--bare", "fresh.git")
    (bench.root / "fresh.git/config").write_text("")
    (reason,) = await undone(bench, 2)
    assert reason is not None
    assert "is part of the git repository" in reason
    assert (bench.root / "fresh.git/config").read_text() == ""


async def test_file_tools_take_no_repository_apart(sqlite_store: StoreHarness, tmp_path):
    """Without one of its parts it is none, and what it runs could be written before it is one again."""
    session = await sqlite_store.sessions.create(opened_by="test")
    bench = ToolHarness(sqlite_store, session.id, tmp_path)
    git(bench.root, "init", "--bare", "mirror.git")
    for name in ("HEAD", "objects", "refs"):
        deleted = {"path": f"mirror.git/{name}", "recursive": True}
        assert await bench.refused("delete_file", **deleted) == "PATH_DENIED"
        moved = {"source": f"mirror.git/{name}", "destination": "elsewhere"}
        assert await bench.refused("move_file", **moved) == "PATH_DENIED"
    await bench.ok("delete_file", path="mirror.git/refs/heads", recursive=True)
    assert await undone(bench, 7) == [None]
    await bench.ok("delete_file", path="mirror.git", recursive=True)
    assert await undone(bench, 8) == [None]
    assert git(bench.root / "mirror.git", "rev-parse", "--is-bare-repository") == "true"
