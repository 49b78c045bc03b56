"""Landlock's system calls: what the kernel is asked for, and that it is really entered."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.sandbox.child import landlock, launcher

SRC = Path(landlock.__file__).parents[3]
LAUNCHED = (
    *(
        "landlock",
        "seccomp",
        "syscall_numbers",
        "process_tree",
        "job_message",
        "job_exec",
        "metadata_syscall_handler",
    ),
    *("job_monitor", "pids_cgroup", "job_supervisor", "launcher"),
)

pytestmark = pytest.mark.skipif(
    landlock.abi_version() < landlock.CONFINING_ABI, reason="this kernel has no Landlock that confines"
)


def confined(code: str, *arguments: str) -> str:
    """What a process prints that has entered a ruleset; entering is for good, so it is another one."""
    prelude = (
        f"import sys, os; sys.path.insert(0, {str(SRC)!r})\n"
        "from interlock.sandbox.child import landlock, seccomp\n"
        "import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)\n"
        "def allow(ruleset, path, rights):\n"
        "    fd = os.open(path, os.O_PATH)\n"
        "    landlock.allow_path(ruleset, fd, landlock.masked(fd, rights))\n"
        "def can(path, flags=os.O_RDONLY):\n"
        "    try: os.close(os.open(path, flags))\n"
        "    except OSError as error: return False\n"
        "    return True\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", prelude + code, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("version", range(landlock.NETWORK_ABI, landlock.CONFINING_ABI + 1))
def test_a_ruleset_for_ports_alone_leaves_files_as_they_were(version, tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    (tmp_path / "from" / "file").touch()
    code = (
        f"landlock.abi_version = lambda: {version}\n"
        "import _socket\n"
        "ruleset = landlock.port_ruleset()\n"
        "landlock.allow_port(ruleset, 1)\n"
        "landlock.restrict_self(ruleset)\n"
        "os.rename(sys.argv[1] + '/from/file', sys.argv[1] + '/to/file')\n"
        "def tried(port):\n"
        "    try: _socket.socket().connect(('127.0.0.1', port))\n"
        "    except OSError as error: return error.errno\n"
        "print(can('/etc/passwd'), tried(1), tried(2))\n"
    )
    assert confined(code, str(tmp_path)) == f"True {errno.ECONNREFUSED} {errno.EACCES}"


@pytest.mark.parametrize(("version", "said"), [(0, "no Landlock"), (5, "version 5.*Linux 6.12")])
def test_a_kernel_whose_landlock_would_not_hold_is_not_used(version, said, monkeypatch):
    monkeypatch.setattr(landlock, "abi_version", lambda: version)
    # All that is done to the process comes later: it must not get there.
    monkeypatch.setattr(launcher, "reset_signals", pytest.fail)
    with pytest.raises(launcher.CannotConfine, match=said):
        launcher._prepare([], [])


def test_a_rule_on_a_file_names_no_rights_of_folders(tmp_path):
    file = tmp_path / "file"
    file.touch()
    descriptor = os.open(file, os.O_PATH)
    rights = landlock.masked(descriptor, landlock.WRITING)
    os.close(descriptor)
    assert rights & landlock.WRITE_FILE
    assert not rights & (landlock.READ_DIR | landlock.MAKE_REG | landlock.REFER)


def test_nothing_can_be_made_that_is_a_device_or_a_socket():
    assert not landlock.WRITING & (landlock.MAKE_CHAR | landlock.MAKE_BLOCK | landlock.MAKE_SOCK)


def test_an_empty_ruleset_shuts_everything():
    code = "landlock.restrict_self(landlock.new_ruleset()); print(can('/'), can('/etc/passwd'))"
    assert confined(code) == "False False"


def test_what_is_opened_is_open_and_the_rest_is_not(tmp_path):
    for name in ("read", "write", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    code = (
        "place = sys.argv[1]\n"
        "ruleset = landlock.new_ruleset()\n"
        "allow(ruleset, place + '/read', landlock.READING)\n"
        "allow(ruleset, place + '/write', landlock.WRITING)\n"
        "landlock.restrict_self(ruleset)\n"
        "print(*(can(f'{place}/{name}/file', flags)\n"
        "        for name in ('read', 'write', 'other') for flags in (os.O_RDONLY, os.O_RDWR)))\n"
    )
    assert confined(code, str(tmp_path)) == "True False True True False False"


def test_a_folder_made_anew_under_the_same_name_is_not_the_one_that_was_opened(tmp_path):
    (tmp_path / "root").mkdir()
    code = (
        "root = sys.argv[1] + '/root'\n"
        "ruleset = landlock.new_ruleset()\n"
        "allow(ruleset, root, landlock.READING)\n"
        "os.rename(root, root + '-moved'); os.mkdir(root)\n"
        "landlock.restrict_self(ruleset)\n"
        "print(can(root), can(root + '-moved'))\n"
    )
    assert confined(code, str(tmp_path)) == "False True"


def test_a_scoped_process_signals_its_descendants_alone():
    code = (
        "landlock.scope_self()\n"
        "child = os.fork()\n"
        "if not child: import time; time.sleep(30)\n"
        "def reaches(pid):\n"
        "    try: os.kill(pid, 0)\n"
        "    except PermissionError: return False\n"
        "    return True\n"
        "print(reaches(os.getppid()), reaches(child)); os.kill(child, 9); os.wait()\n"
    )
    assert confined(code) == "False True"


def test_an_error_of_the_kernel_is_an_os_error():
    with pytest.raises(OSError, match="landlock"):
        landlock.restrict_self(-1)


@pytest.mark.parametrize("module", LAUNCHED)
def test_the_launchers_modules_load_little_and_nothing_of_interlock_but_each_other(module):
    """It is forked for every job: what it does not load need not be copied, nor can it be attacked."""
    code = (
        f"import sys; sys.path.insert(0, {str(SRC)!r}); import interlock.sandbox.child.{module}\n"
        "print(*sorted(name for name in sys.modules if name.startswith('interlock.') or name in\n"
        "      ('asyncio', 'typing', 'dataclasses', 'subprocess', 'socket', 'pathlib', 'json')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    packages = {"interlock", "interlock.sandbox", "interlock.sandbox.child"}
    allowed = {f"interlock.sandbox.child.{name}" for name in LAUNCHED} | packages
    assert set(done.stdout.split()) <= allowed
