"""Modes, owners and times under the launcher: changed inside where a profile writes, and nowhere else."""

import os
from pathlib import Path

import pytest

from tests.escape.attempts import METADATA, OF_THE_SYSTEM, SET_ID
from tests.escape.trying import KINDS, attempt, facts, snapshot

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def sandbox(shared_sandbox):
    return shared_sandbox


@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("name", METADATA)
async def test_a_profile_that_writes_nothing_changes_no_metadata(linked, name, place):
    before = snapshot(linked.inside) + snapshot(linked.outside)
    assert await attempt(linked, METADATA[name].replace("{place}", place), kind="chat") == "EPERM"
    assert snapshot(linked.inside) + snapshot(linked.outside) == before


@pytest.mark.parametrize("name", METADATA)
async def test_a_profile_that_writes_changes_metadata_inside_in_every_form(linked, name):
    if "old" in name and os.uname().machine != "x86_64":
        pytest.skip("this architecture never had it")
    if "cwd" in METADATA[name]:
        pytest.skip("a name that means another file to the supervisor is refused everywhere")
    before = snapshot(linked.inside)
    body = METADATA[name].replace("{place}", "inside")
    assert (await attempt(linked, body, kind="coding")).startswith("reached")
    assert snapshot(linked.inside) != before
    if "chmod" in name:
        assert (linked.inside / "file").stat().st_mode & 0o777 == 0o777
    elif "utime" in name and "now" not in name and "link" not in name:
        assert (linked.inside / "file").stat().st_mtime == 1


@pytest.mark.parametrize("name", METADATA)
async def test_a_profile_that_writes_changes_no_metadata_outside_in_any_form(linked, name):
    before = snapshot(linked.outside)
    body = METADATA[name].replace("{place}", "outside")
    # /proc/self is the supervisor's own, and its folder has no such file.
    expected = "ENOENT" if "/proc/self/cwd" in body else "EPERM"
    assert await attempt(linked, body, kind="coding") == expected
    assert snapshot(linked.outside) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OF_THE_SYSTEM)
async def test_the_systems_files_keep_their_metadata_though_they_can_be_opened(sandbox, name, kind):
    system = Path("/usr/bin/env").resolve()
    before = facts(system)
    body = OF_THE_SYSTEM[name].replace("SYSTEM", repr(str(system)))
    assert await attempt(sandbox, body, kind=kind) == "EPERM"
    assert facts(system) == before


@pytest.mark.parametrize("name", SET_ID)
async def test_no_file_is_made_that_runs_as_its_owner(sandbox, name):
    if "call" in name and os.uname().machine != "x86_64":
        pytest.skip("the numbers are x86_64's")
    assert await attempt(sandbox, SET_ID[name], kind="coding") in ("EPERM", "ENOSYS")
    assert [path for path in sandbox.inside.iterdir() if path.stat().st_mode & 0o6000] == []


async def test_a_caller_that_rewrites_its_path_while_it_is_judged_gains_nothing(sandbox):
    """The path lies in memory that another thread flips between an inside and an outside name."""
    body = (
        "import threading\n"
        "names = [(inside + '/file').encode() + b'\\0', (outside + '/file').encode() + b'\\0']\n"
        "memory = ctypes.create_string_buffer(max(map(len, names)))\n"
        "until, at_most = time.monotonic() + 0.7, time.monotonic() + 20\n"
        "done, is_over = 0, False\n"
        "def flip():\n"
        "    while not is_over:\n"
        "        for name in names: ctypes.memmove(memory, name, len(name))\n"
        "flipping = threading.Thread(target=flip)\n"
        "flipping.start()\n"
        "while time.monotonic() < (until if done else at_most):\n"
        "    done += libc.chmod(memory, 0o777) == 0\n"
        "is_over = True\n"
        "flipping.join()\n"
        "return done > 0"
    )
    before = snapshot(sandbox.outside)
    assert await attempt(sandbox, body, kind="coding") == "reached True"
    assert snapshot(sandbox.outside) == before


async def test_a_folder_that_is_swapped_for_a_link_while_it_is_judged_gains_nothing(sandbox):
    body = (
        "import threading\n"
        "os.mkdir(inside + '/a'); open(inside + '/a/file', 'w').close()\n"
        "os.symlink(outside, inside + '/b')\n"
        "until, at_most = time.monotonic() + 0.7, time.monotonic() + 20\n"
        "done, is_over = 0, False\n"
        "def flip():\n"
        "    while not is_over:\n"
        "        call(316, -100, (inside + '/a').encode(), -100, (inside + '/b').encode(), 2)\n"
        "flipping = threading.Thread(target=flip)\n"
        "flipping.start()\n"
        "while time.monotonic() < (until if done else at_most):\n"
        "    done += libc.chmod((inside + '/a/file').encode(), 0o777) == 0\n"
        "is_over = True\n"
        "flipping.join()\n"
        "return done > 0"
    )
    before = snapshot(sandbox.outside)
    assert await attempt(sandbox, body, kind="coding") == "reached True"
    assert snapshot(sandbox.outside) == before


async def test_a_bad_pointer_or_descriptor_is_the_callers_own_mistake(sandbox):
    assert await attempt(sandbox, "call(90, 8, 0o777)", kind="coding") == "EFAULT"
    assert await attempt(sandbox, "call(90, (1 << 63) - 1, 0o777)", kind="coding") == "EFAULT"
    assert await attempt(sandbox, "os.fchmod(77, 0o777)", kind="coding") == "EBADF"
    assert await attempt(sandbox, "os.chmod(inside + '/missing', 0o777)", kind="coding") == "ENOENT"
    assert (
        await attempt(sandbox, "os.chmod(inside + '/' + 'x/' * 3000, 0o777)", kind="coding")
        == "ENAMETOOLONG"
    )
