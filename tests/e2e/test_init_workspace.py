"""`interlock init` as a person uses it: a workspace appears, and nothing of theirs is touched."""

import stat

import pytest

from tests.harness.cli import one_line_error


@pytest.fixture
def workspace(interlock):
    return interlock.home / ".local/share/interlock"


def states(told: dict) -> dict[str, str]:
    return {step["path"]: step["state"] for step in told["steps"]}


def test_a_first_init_makes_everything_and_a_second_nothing(interlock, workspace):
    lines = interlock("init").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["made"] * 8
    names = {"AGENTS.md", "USER.md", "SOUL.md", "MEMORY.md", "agents", "workflows", "memory"}
    assert {path.name for path in workspace.iterdir()} == names
    assert stat.S_IMODE(workspace.stat().st_mode) == 0o700
    before = {path: path.read_bytes() for path in workspace.glob("*.md")}
    assert set(states(interlock.json("init")).values()) == {"there"}
    assert {path: path.read_bytes() for path in workspace.glob("*.md")} == before
    # It opens no store.
    assert not (interlock.home / "state").exists()


def test_what_a_person_wrote_stays(interlock, workspace):
    workspace.mkdir(parents=True)
    (workspace / "USER.md").write_text("I am Ada.")
    told = states(interlock.json("init"))
    assert (workspace / "USER.md").read_text() == "I am Ada."
    assert told[str(workspace / "USER.md")] == "there"
    assert told[str(workspace / "SOUL.md")] == "made"


def test_another_folder_can_be_named(interlock):
    done = interlock("init", "--workspace", "mine")
    folder = interlock.home / "mine"
    assert (folder / "AGENTS.md").is_file()
    assert done.stderr == f"to use it: export WORKSPACE_DIR={folder}\n"
    interlock.variables["WORKSPACE_DIR"] = str(folder)
    assert interlock("init").stderr == ""
    assert interlock("init", "--workspace", "mine/").stderr == ""


def test_what_stands_in_the_way_is_told_and_left(interlock, workspace):
    workspace.mkdir(parents=True)
    (workspace / "agents").write_text("no folder")
    (workspace / "SOUL.md").symlink_to("/etc/hostname")
    told = interlock.json("init", expect=1)
    failed = {step["path"]: step["detail"] for step in told["steps"] if step["state"] == "failed"}
    assert set(failed) == {str(workspace / "agents"), str(workspace / "SOUL.md")}
    assert (workspace / "AGENTS.md").is_file()
    assert (workspace / "agents").read_text() == "no folder"
    assert (workspace / "SOUL.md").is_symlink()
    assert "failed  " in interlock("init", expect=1).stdout


def test_a_place_that_cannot_be_written_is_one_line(interlock):
    done = interlock("init", "--workspace", "/proc/mine", expect=1)
    assert done.stdout.startswith("failed  /proc/mine")


def test_a_workspace_in_an_agents_reach_is_refused(interlock):
    root = interlock.home / "project"
    root.mkdir()
    interlock.variables["TOOL_ALLOWED_ROOTS"] = str(root)
    told = one_line_error(interlock, "init", "--workspace", "project/ws", expect=2)
    assert "must not reach its own" in told
    assert list(root.iterdir()) == []
