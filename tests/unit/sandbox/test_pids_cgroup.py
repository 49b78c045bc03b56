"""Where a control group for a job may be made. (`tests/escape/test_fork_bomb.py` has real ones.)"""

import os
import subprocess
import sys

import pytest

from interlock.sandbox.child import pids_cgroup


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Files as the kernel shows them; `delegated` is the group that a service has to itself."""
    delegated = tmp_path / "cgroup/system.slice/interlock.service"
    (delegated / "server").mkdir(parents=True)
    (delegated / "cgroup.subtree_control").write_text("")
    shown = {
        "/proc/self/cgroup": ["0::/system.slice/interlock.service/server"],
        "/proc/self/mountinfo": [
            "24 1 0:22 / / rw - ext4 /dev/vda rw",
            f"30 24 0:26 / {tmp_path}/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate",
        ],
    }
    monkeypatch.setattr(pids_cgroup, "_lines", lambda path: shown[path])
    return delegated, shown


def mark_delegated(directory) -> None:
    try:
        os.setxattr(directory, "user.delegate", b"1")
    except OSError:
        pytest.skip("this file system has no extended attributes")


def test_in_version_2_it_is_the_group_that_systemd_delegated(system):
    delegated, _ = system
    mark_delegated(delegated)
    assert pids_cgroup.find_writable_cgroup() == str(delegated)
    assert (delegated / "cgroup.subtree_control").read_text() == "+pids"


def test_a_group_that_was_not_delegated_is_not_used(system):
    """Its neighbours are other services, and what is made there would not count for this one."""
    delegated, _ = system
    assert pids_cgroup.find_writable_cgroup() is None
    assert (delegated / "cgroup.subtree_control").read_text() == ""


def test_in_version_1_it_is_the_own_group(system, tmp_path):
    _, shown = system
    shown["/proc/self/cgroup"] = ["8:pids:/docker/abc/mine", "0::/"]
    shown["/proc/self/mountinfo"] += [f"31 24 0:27 /docker/abc {tmp_path}/v1 rw - cgroup cgroup rw,pids"]
    assert pids_cgroup.find_writable_cgroup() is None
    (tmp_path / "v1/mine").mkdir(parents=True)
    assert pids_cgroup.find_writable_cgroup() == f"{tmp_path}/v1/mine"


def test_groups_of_dead_processes_are_removed_and_those_of_living_ones_are_not(system):
    delegated, _ = system
    mark_delegated(delegated)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for name in (
        f"interlock-{gone.pid}-0",
        f"interlock-{os.getpid()}-0",
        f"interlock-{os.getppid()}-1",
        "other",
    ):
        (delegated / name).mkdir()
    pids_cgroup.find_writable_cgroup()
    left = {path.name for path in delegated.iterdir() if path.is_dir()}
    assert left == {"server", f"interlock-{os.getpid()}-0", f"interlock-{os.getppid()}-1", "other"}
    pids_cgroup.remove_own_groups(str(delegated))
    assert not (delegated / f"interlock-{os.getpid()}-0").exists()
    assert (delegated / f"interlock-{os.getppid()}-1").exists()


def test_where_no_group_can_be_made_there_is_none(tmp_path):
    assert pids_cgroup.create_group(None) is None
    assert pids_cgroup.create_group(str(tmp_path / "missing")) is None
    # A directory that is no control group.
    assert pids_cgroup.create_group(str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []
