"""Landlock's system calls: what each version of the kernel is asked for, and that it is really entered."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.sandbox import landlock

SRC = Path(landlock.__file__).parents[2]

pytestmark = pytest.mark.skipif(not landlock.abi_version(), reason="this kernel has no Landlock")


def confined(code: str, *arguments: str) -> str:
    """What a process prints that has entered a ruleset; entering is for good, so it is another one."""
    prelude = (
        f"import sys, os; sys.path.insert(0, {str(SRC)!r})\n"
        "from interlock.sandbox import landlock, seccomp\n"
        "abi = landlock.abi_version()\n"
        "import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)\n"
        "def allow(ruleset, path, rights):\n"
        "    fd = os.open(path, os.O_PATH)\n"
        "    landlock.allow_path(ruleset, fd, landlock.masked(abi, fd, rights))\n"
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


def test_each_version_is_asked_only_for_what_it_knows():
    assert [landlock.file_rights(abi).bit_count() for abi in range(1, 9)] == [
        13,
        14,
        15,
        15,
        16,
        16,
        16,
        16,
    ]


@pytest.mark.parametrize("abi", range(1, landlock.abi_version() + 1))
def test_a_ruleset_of_every_version_up_to_this_kernels_is_accepted(abi, tmp_path):
    ruleset = landlock.new_ruleset(abi)
    folder = os.open(tmp_path, os.O_PATH)
    try:
        for rights in (landlock.READING, landlock.WRITING, landlock.DEVICE):
            landlock.allow_path(ruleset, folder, landlock.masked(abi, folder, rights))
    finally:
        os.close(folder)
        os.close(ruleset)


def test_a_rule_on_a_file_names_no_rights_of_folders(tmp_path):
    file = tmp_path / "file"
    file.touch()
    descriptor = os.open(file, os.O_PATH)
    rights = landlock.masked(landlock.abi_version(), descriptor, landlock.WRITING)
    os.close(descriptor)
    assert rights & landlock.WRITE_FILE
    assert not rights & (landlock.READ_DIR | landlock.MAKE_REG | landlock.REFER)


def test_nothing_can_be_made_that_is_a_device_or_a_socket():
    assert not landlock.WRITING & (landlock.MAKE_CHAR | landlock.MAKE_BLOCK | landlock.MAKE_SOCK)


def test_an_empty_ruleset_shuts_everything():
    code = "landlock.restrict_self(landlock.new_ruleset(abi)); print(can('/'), can('/etc/passwd'))"
    assert confined(code) == "False False"


def test_what_is_opened_is_open_and_the_rest_is_not(tmp_path):
    for name in ("read", "write", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    code = (
        "place = sys.argv[1]\n"
        "ruleset = landlock.new_ruleset(abi)\n"
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
        "ruleset = landlock.new_ruleset(abi)\n"
        "allow(ruleset, root, landlock.READING)\n"
        "os.rename(root, root + '-moved'); os.mkdir(root)\n"
        "landlock.restrict_self(ruleset)\n"
        "print(can(root), can(root + '-moved'))\n"
    )
    assert confined(code, str(tmp_path)) == "False True"


@pytest.mark.skipif(landlock.abi_version() < landlock.SCOPE_ABI, reason="this kernel has no scopes")
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


@pytest.mark.parametrize(
    "module",
    [
        "landlock",
        "seccomp",
        "syscalls",
        "process_tree",
        "order",
        "confined",
        "metadata",
        "watch",
        "supervisor",
        "launcher",
    ],
)
def test_the_launchers_modules_load_little_and_nothing_of_interlock_but_each_other(module):
    """It is forked for every job: what it does not load need not be copied, nor can it be attacked."""
    code = (
        f"import sys; sys.path.insert(0, {str(SRC)!r}); import interlock.sandbox.{module}\n"
        "print(*sorted(name for name in sys.modules if name.startswith('interlock.') or name in\n"
        "      ('asyncio', 'typing', 'dataclasses', 'subprocess', 'socket', 'pathlib', 'json')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    own = {
        "landlock",
        "seccomp",
        "syscalls",
        "process_tree",
        "order",
        "confined",
        "metadata",
        "watch",
        "supervisor",
        "launcher",
    }
    allowed = {f"interlock.sandbox.{name}" for name in own} | {"interlock", "interlock.sandbox"}
    assert set(done.stdout.split()) <= allowed
