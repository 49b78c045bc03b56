"""Protected names are put back after a command."""

import shutil

import pytest

from interlock.core.errors import ToolError
from interlock.sandbox import nested_repositories
from interlock.sandbox import protected_snapshot as guarding
from interlock.sandbox.paths import PathResolver
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.protected_snapshot import NOT_PUT_BACK, ProtectedSnapshot

NAMES = (".git/hooks", ".git/config", ".vscode", ".bashrc", ".git/modules/**/hooks")


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / ".git" / "config").write_text("[core]\n")
    (folder / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    (folder / ".git" / "hooks" / "pre-commit").chmod(0o755)
    (folder / "sub").mkdir()
    (tmp_path / "outside").mkdir()
    return folder


def unused_guard(root, workdir=".") -> ProtectedSnapshot:
    profile = SandboxProfile((root,), (root,), frozenset(), NAMES)
    return ProtectedSnapshot(profile, PathResolver(profile).find(workdir))


def guard(root, workdir=".") -> ProtectedSnapshot:
    made = unused_guard(root, workdir)
    made.remember()
    return made


def test_what_was_not_touched_stays_and_nothing_is_told(root):
    watch = guard(root)
    (root / "other").write_text("x")
    before = (root / ".git/config").stat().st_ino
    assert watch.restore() == []
    assert (root / ".git/config").stat().st_ino == before


def test_changed_removed_and_added_files_are_put_back(root):
    watch = guard(root)
    (root / ".git/config").write_text("evil")
    (root / ".git/hooks/pre-commit").unlink()
    (root / ".git/hooks/post-commit").write_text("evil")
    (root / ".bashrc").write_text("evil")
    assert sorted(watch.restore()) == [".bashrc", ".git/config", ".git/hooks"]
    assert (root / ".git/config").read_text() == "[core]\n"
    assert [path.name for path in (root / ".git/hooks").iterdir()] == ["pre-commit"]
    assert (root / ".git/hooks/pre-commit").stat().st_mode & 0o777 == 0o755
    assert not (root / ".bashrc").exists()


def test_a_changed_mode_is_put_back(root):
    watch = guard(root)
    (root / ".git/config").chmod(0o777)
    assert watch.restore() == [".git/config"]
    assert (root / ".git/config").stat().st_mode & 0o777 != 0o777


@pytest.mark.parametrize("left", [0o000, 0o055, 0o500])
def test_a_folder_above_that_was_shut_to_its_owner_is_opened_again(root, left):
    (root / ".git").chmod(0o755)
    watch = guard(root)
    (root / ".git").chmod(left)
    assert watch.restore() == [".git"]
    assert (root / ".git").stat().st_mode & 0o777 == 0o755


def test_a_new_protected_folder_is_removed_whole(root):
    watch = guard(root)
    (root / ".vscode" / "deep").mkdir(parents=True)
    (root / ".vscode" / "deep" / "tasks.json").write_text("evil")
    assert watch.restore() == [".vscode"]
    assert not (root / ".vscode").exists()


def test_names_in_the_working_folder_are_watched_as_well(root):
    watch = guard(root, "sub")
    (root / "sub" / ".bashrc").write_text("evil")
    assert watch.restore() == ["sub/.bashrc"]
    assert not (root / "sub" / ".bashrc").exists()


def test_a_link_put_in_its_place_leads_nowhere(root, tmp_path):
    """What is put back is written in the root, never through a link to somewhere else."""
    watch = guard(root)
    (tmp_path / "outside" / "victim").write_text("as it was")
    (root / ".git/config").unlink()
    (root / ".git/config").symlink_to(tmp_path / "outside" / "victim")
    assert watch.restore() == [".git/config"]
    assert (tmp_path / "outside" / "victim").read_text() == "as it was"
    assert not (root / ".git/config").is_symlink()


def test_a_folder_above_that_became_a_link_out_is_not_followed_and_goes(root, tmp_path):
    watch = guard(root)
    (root / ".git").rename(root / "moved")
    (root / ".git").symlink_to(tmp_path / "outside")
    assert watch.restore() == [".git", ".git/hooks", ".git/config"]
    assert (root / ".git/config").read_text() == "[core]\n"
    assert list((tmp_path / "outside").iterdir()) == []


def test_the_repositories_inside_are_watched_as_well(root):
    (root / "lib/inner/.git/hooks").mkdir(parents=True)
    (root / "lib/inner/.git/config").write_text("[core]\n")
    watch = guard(root)
    (root / "lib/inner/.git/hooks/pre-commit").write_text("evil")
    (root / "lib/inner/.git/config").write_text("[core]\nfsmonitor = evil\n")
    assert watch.restore() == ["lib/inner/.git/hooks", "lib/inner/.git/config"]
    assert (root / "lib/inner/.git/config").read_text() == "[core]\n"
    assert not list((root / "lib/inner/.git/hooks").iterdir())


def test_another_repository_in_place_of_one_inside_is_not_left(root):
    (root / "lib/.git/hooks").mkdir(parents=True)
    watch = guard(root)
    (root / "lib/.git").rename(root / "lib/old")
    (root / "lib/old/hooks/pre-commit").write_text("evil")
    (root / "lib/.git").symlink_to("old")
    watch.restore()
    assert not (root / "lib/.git").is_symlink()
    assert not list((root / "lib/.git/hooks").iterdir())


def test_a_repository_inside_may_be_removed_and_made(root):
    (root / "lib/.git/hooks").mkdir(parents=True)
    watch = guard(root)
    shutil.rmtree(root / "lib")
    (root / "new/.git/hooks").mkdir(parents=True)
    assert watch.restore() == []
    assert not (root / "lib").exists()
    assert (root / "new/.git/hooks").is_dir()


def test_no_more_is_looked_at_than_takes_a_moment(root, monkeypatch):
    monkeypatch.setattr(nested_repositories, "MAX_LOOKED", 50)
    (root / "deep/er/.git/hooks").mkdir(parents=True)
    for number in range(60):
        (root / f"deep/{number}").touch()
    watch = guard(root)
    (root / "deep/er/.git/hooks/x").write_text("evil")
    assert watch.restore() == []


@pytest.fixture
def submodule(root):
    folder = root / ".git/modules/sub"
    (folder / "hooks").mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "hooks/post-checkout").write_text("#!/bin/sh\n")
    return folder


def fill(folder, count=60):
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / str(number)).touch()


def test_nothing_is_run_where_protected_names_hide_among_too_many_others(root, submodule, monkeypatch):
    """One command leaves the others there, and the next could change a hook that nobody looks at."""
    monkeypatch.setattr(guarding, "MAX_SCANNED", 50)
    fill(root / ".git/modules/0")
    watch = unused_guard(root)
    with pytest.raises(ToolError, match=r"\.git/modules contains more than 50 names"):
        watch.remember()
    assert watch.restore() == []
    shutil.rmtree(root / ".git/modules/0")
    watch = guard(root)
    (submodule / "hooks/post-checkout").write_text("evil")
    assert watch.restore() == [".git/modules/sub/hooks"]


def test_what_hides_among_too_many_others_after_a_command_is_told(root, submodule, monkeypatch):
    monkeypatch.setattr(guarding, "MAX_SCANNED", 50)
    watch = guard(root)
    fill(root / ".git/modules/0")
    (submodule / "hooks/post-checkout").write_text("evil")
    (root / ".git/modules/new/hooks").mkdir(parents=True)
    assert watch.restore() == [".git/modules/sub/hooks", f".git/modules{NOT_PUT_BACK}"]
    assert (submodule / "hooks/post-checkout").read_text() == "#!/bin/sh\n"


@pytest.mark.parametrize("store", ["objects", "logs", "refs", "lfs"])
def test_a_large_submodule_is_none_of_them(root, submodule, monkeypatch, store):
    monkeypatch.setattr(guarding, "MAX_SCANNED", 50)
    fill(submodule / store / "aa")
    watch = guard(root)
    (submodule / "hooks/post-checkout").write_text("evil")
    assert watch.restore() == [".git/modules/sub/hooks"]


def test_a_submodule_may_have_the_name_of_a_store(root, submodule):
    other = submodule.with_name("objects")
    shutil.move(submodule, other)
    watch = guard(root)
    (other / "hooks/post-checkout").write_text("evil")
    assert watch.restore() == [".git/modules/objects/hooks"]
