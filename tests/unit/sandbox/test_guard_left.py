"""What a process that was killed had to put back, the next one does; what a person did since is theirs."""

import os
import time
from pathlib import Path

import pytest

from interlock.sandbox import protected_snapshot
from interlock.sandbox.paths import PathAccess, PathResolver
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.protected_snapshot import ProtectedSnapshot, share_snapshots
from interlock.sandbox.shared_snapshots import ProtectedStateRegistry

HOOKS = ".git/hooks"
NAMES = (".git/config", ".git/hooks", ".git/modules/**/hooks")


class Scene:
    """A repository, and a process that is gone: with its memory as it was then."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.root = folder / "root"
        (self.root / HOOKS).mkdir(parents=True)
        self.write("config", "as it was")
        self.write("hooks/old", "as it was")
        self._state = folder / "state"
        self._monkeypatch = monkeypatch
        profile = SandboxProfile((self.root,), (self.root,), protected_names=NAMES)
        self._guard = ProtectedSnapshot(profile, PathResolver(profile).find(".", PathAccess.write))
        self.told: list[list[str]] = []
        self._anew()
        self._guard.remember()

    def write(self, name: str, text: str) -> None:
        (self.root / ".git" / name).write_text(text)

    def found(self) -> dict[str, str]:
        files = (path for path in (self.root / ".git").rglob("*") if path.is_file())
        return {str(path.relative_to(self.root / ".git")): path.read_text() for path in files}

    def dies(self, *, ago_seconds: float = 0.0) -> None:
        os.close(protected_snapshot._MEMORY._file._descriptor)
        protected_snapshot._MEMORY._pulse.of(None)
        (held,) = self._state.glob("*.held")
        then = time.time() - ago_seconds
        os.utime(held, (then, then))

    def next_starts(self) -> None:
        self._anew()

    def _anew(self) -> None:
        self._monkeypatch.setattr(protected_snapshot, "_MEMORY", ProtectedStateRegistry())
        share_snapshots(self._state, self.told.append)


@pytest.fixture
def scene(tmp_path, monkeypatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


AS_IT_WAS = {"config": "as it was", "hooks/old": "as it was"}


def test_what_a_command_did_is_put_back_at_the_next_start(scene):
    scene.write("config", "evil")
    scene.write("hooks/new", "evil")
    (scene.root / HOOKS / "old").unlink()
    scene.dies()
    scene.next_starts()
    assert scene.found() == AS_IT_WAS
    # By whole paths: nobody knows from which folder others were meant.
    assert [sorted(paths) for paths in scene.told] == [
        [f"{scene.root}/.git/config", f"{scene.root}/.git/hooks"],
    ]
    # Once: what a person does then stays.
    scene.write("config", "a person's")
    scene.next_starts()
    assert scene.found()["config"] == "a person's"
    assert len(scene.told) == 1


def test_it_is_put_back_also_by_a_process_that_runs_already_before_its_next_command(scene, monkeypatch):
    other = ProtectedStateRegistry()
    other.share(scene._state, scene.told.append)
    scene.write("config", "evil")
    scene.dies()
    monkeypatch.setattr(protected_snapshot, "_MEMORY", other)
    profile = SandboxProfile((scene.root,), (scene.root,), protected_names=NAMES)
    second = ProtectedSnapshot(profile, PathResolver(profile).find(".", PathAccess.write))
    second.remember()
    assert scene.found() == AS_IT_WAS
    assert scene.told == [[f"{scene.root}/.git/config"]]
    assert second.restore() == []


def test_what_changed_long_after_its_end_is_left(scene):
    scene.dies(ago_seconds=3600)
    scene.write("config", "a person's")
    scene.write("hooks/new", "a person's")
    scene.next_starts()
    assert scene.found() == {**AS_IT_WAS, "config": "a person's", "hooks/new": "a person's"}


def test_what_changed_before_and_after_is_told_apart(scene, monkeypatch):
    monkeypatch.setattr(protected_snapshot, "_AFTERWARDS_NS", 0)
    scene.write("hooks/evil", "evil")
    time.sleep(0.05)
    scene.dies()
    time.sleep(0.05)
    scene.write("hooks/own", "a person's")
    scene.next_starts()
    assert scene.found() == {**AS_IT_WAS, "hooks/own": "a person's"}


def test_a_repository_that_was_removed_since_stays_so(scene, monkeypatch):
    monkeypatch.setattr(protected_snapshot, "_AFTERWARDS_NS", 0)
    scene.write("config", "evil")
    scene.dies()
    time.sleep(0.05)
    (scene.root / ".git").rename(scene.root / "elsewhere")
    scene.next_starts()
    assert not (scene.root / ".git").exists()


def test_a_root_that_is_gone_stops_nobody(scene):
    scene.dies()
    scene.root.rename(scene.root.with_name("elsewhere"))
    scene.next_starts()
    assert list(scene._state.glob("*.held")) == []
